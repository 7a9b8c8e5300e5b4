package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// initdbArgs make a cluster that is small (16 MB of the usual size is one WAL file) and trusts every local user.
var initdbArgs = []string{
	"-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions", "--wal-segsize=1",
}

// postgresUser is who Postgres runs as: nil means ourselves. It refuses to run as root.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // no other user is an answer
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("read ids of user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("find a user for postgres: there is neither postgres nor nobody")
}

func giveTo(path string, user *syscall.Credential) error {
	if user == nil {
		return nil
	}
	if err := os.Lchown(path, int(user.Uid), int(user.Gid)); err != nil {
		return fmt.Errorf("give folder to the user of postgres: %w", err)
	}
	return nil
}

// makeCluster fills the data folder: a copy of the cached cluster where there is one.
func (p *Postgres) makeCluster(ctx context.Context, useCache bool) error {
	if !useCache {
		return p.initdb(ctx, p.data())
	}
	cached, err := p.cachedCluster()
	if err != nil {
		return err
	}
	if !ownedByUs(cached) {
		if err := p.keepCluster(ctx, cached); err != nil {
			return err
		}
	}
	return p.copyTree(cached, p.data())
}

// keepCluster makes the cached cluster, on the disk where it will lie: the server's own folder may be on another one.
func (p *Postgres) keepCluster(ctx context.Context, cached string) error {
	dir, err := os.MkdirTemp(p.env.dir, "fresh-*")
	if err != nil {
		return fmt.Errorf("make folder for a cluster: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := giveTo(dir, p.user); err != nil {
		return err
	}
	fresh := filepath.Join(dir, "cluster")
	if err := p.initdb(ctx, fresh); err != nil {
		return err
	}
	return publish(fresh, cached)
}

// cachedCluster is where the cluster of this user, version and set of options is kept.
func (p *Postgres) cachedCluster() (string, error) {
	info, err := os.Stat(filepath.Join(p.bin, "postgres"))
	if err != nil {
		return "", fmt.Errorf("look at postgres: %w", err)
	}
	key := fmt.Sprint(p.bin, info.Size(), info.ModTime().UnixNano(), initdbArgs)
	if p.user != nil {
		key += fmt.Sprint(p.user.Uid)
	}
	sum := sha256.Sum256([]byte(key))
	name := fmt.Sprintf("crawlkeeper-cluster-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:6]))
	return filepath.Join(os.TempDir(), name), nil
}

// ownedByUs is false where there is nothing, or where somebody else put something.
func ownedByUs(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// publish moves a fresh cluster to its place in the cache. Whoever comes second keeps what the first has put there.
func publish(fresh, cached string) error {
	if err := os.Lchown(fresh, os.Geteuid(), os.Getegid()); err != nil {
		return fmt.Errorf("take cluster over: %w", err)
	}
	err := os.Rename(fresh, cached)
	if err != nil && !ownedByUs(cached) {
		return fmt.Errorf("keep cluster: %w", err)
	}
	return nil
}

// initdb makes a cluster. It runs as the user of postgres.
func (p *Postgres) initdb(ctx context.Context, dir string) error {
	argv := append([]string{filepath.Join(p.bin, "initdb"), "-D", dir}, initdbArgs...)
	err := p.env.run(ctx, command{argv: argv, dir: p.dir, log: filepath.Join(p.dir, "initdb.log"), user: p.user})
	if err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	return nil
}

// copyTree copies folders and plain files and gives them to the user of postgres.
func (p *Postgres) copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("copy cluster: %w", err)
		}
		target := to + strings.TrimPrefix(path, from)
		if entry.IsDir() {
			err = os.Mkdir(target, 0o700)
		} else {
			err = copyFile(path, target)
		}
		if err != nil {
			return fmt.Errorf("copy cluster: %w", err)
		}
		return giveTo(target, p.user)
	})
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
