package borrowed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Variable is the environment variable by which a crawler finds its list.
const Variable = "CRAWLKEEPER_TRACK"

const (
	termsName = ".terms"
	listName  = ".borrowed"
)

// Place is where what belongs to one process lies: Root/ID and files of that name.
type Place struct {
	Root string // a directory of the manager, which others may pass through but not list
	ID   string
}

// Temp is the directory for temporary files.
func (p Place) Temp() string { return filepath.Join(p.Root, p.ID) }

// List is the file that the crawler appends to.
func (p Place) List() string { return p.Temp() + listName }

func (p Place) terms() string { return p.Temp() + termsName }

// Paths are all that may lie there.
func (p Place) Paths() []string { return []string{p.Temp(), p.List(), p.terms()} }

// Owner is as whom the crawler runs; nil is the manager's own user.
type Owner = syscall.Credential

// MakeTemp makes the directory for temporary files, for one user, who can reach but not list the one above.
func (p Place) MakeTemp(user *Owner) error {
	if err := p.makeRoot(); err != nil {
		return err
	}
	if err := os.Mkdir(p.Temp(), tempMode); err != nil {
		return err
	}
	if user == nil {
		return nil
	}
	return os.Lchown(p.Temp(), int(user.Uid), int(user.Gid))
}

// Unused tells whether the directory for temporary files is as it was made for that user, and empty.
func (p Place) Unused(user *Owner) bool {
	fd, err := unix.Open(p.Temp(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&0o7777 != tempMode {
		return false
	}
	if uid, gid := as(user); int(st.Uid) != uid || int(st.Gid) != gid {
		return false
	}
	var entries [4096]byte // a call may give few of them, and needs room for the longest name
	for {
		n, err := unix.Getdents(fd, entries[:])
		if err != nil || n == 0 {
			return err == nil
		}
		if _, _, names := unix.ParseDirent(entries[:n], -1, nil); len(names) > 0 {
			return false
		}
	}
}

func as(user *Owner) (uid, gid int) {
	if user == nil {
		return self(), os.Getegid()
	}
	return int(user.Uid), int(user.Gid)
}

// Become gives the directory for temporary files another name, under which there is none.
func (p Place) Become(other Place) error { return os.Rename(p.Temp(), other.Temp()) }

const (
	rootMode = 0o711
	tempMode = 0o700
)

// makeRoot refuses a directory that somebody else has made: its name can be foretold, it lies where everybody may write, and
// its owner could put links in the place of what we make in it. One that is there already is left as it is.
func (p Place) makeRoot() error {
	info, err := os.Lstat(p.Root) // nearly always it is there
	if errors.Is(err, fs.ErrNotExist) {
		makingRoot.Lock()
		defer makingRoot.Unlock()
		if err := os.MkdirAll(filepath.Dir(p.Root), rootMode); err != nil {
			return err
		}
		if err = makeApart(p.Root); err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err = os.Lstat(p.Root)
	}
	if err != nil {
		return err
	}
	if !ours(info) {
		return fmt.Errorf("%s was made by somebody else: look at it, and remove it", p.Root)
	}
	return nil
}

// makingRoot is held by the one who makes such a directory: thousands of starts find none at once.
var makingRoot sync.Mutex

// makeApart makes a directory. Ext4 puts a new directory close to the one above, and what is made in it close to itself. In a folder
// where everybody makes and removes files, as /tmp is, it else passes over the numbers of those that were just removed: 100 to 300 µs
// for each directory where it has no journal. What is below a top is put where there is room.
func makeApart(dir string) error {
	top := dir + ".top"
	_ = syscall.Rmdir(top) // of one that was killed here
	if os.Mkdir(top, 0o700) == nil {
		defer os.Remove(top)
		markTop(top)
		made, err := os.MkdirTemp(top, "") // the place goes by the name: one that nobody had
		if err == nil && os.Chmod(made, rootMode) == nil && unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE) == nil {
			return nil
		}
		_ = os.Remove(made)
	}
	if err := os.Mkdir(dir, rootMode); err != nil {
		return err
	}
	return os.Chmod(dir, rootMode) // whatever our umask
}

// markTop marks a directory, where its file system knows that.
func markTop(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|topdirFlag))
	}
}

// topdirFlag is FS_TOPDIR_FL of linux/fs.h.
const topdirFlag = 0x00020000

// self is our user. Tests that may not give anything away are somebody else instead.
var self = os.Geteuid

// ours tells whether something is a directory of our user.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int(st.Uid) == self()
}

// RemoveTemp removes the directory for temporary files.
func (p Place) RemoveTemp(ctx context.Context) error {
	if err := syscall.Rmdir(p.Temp()); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil // it was empty, as most are
	}
	w, dir, name, err := find(ctx, p.Root, p.ID)
	if err != nil {
		return gone(err)
	}
	defer dir.Close()
	return w.remove(dir, name, 0)
}

// Lend writes the terms and an empty list.
func (p Place) Lend(t *Terms, user *Owner) error {
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode terms: %w", err)
	}
	if err := os.WriteFile(p.terms(), text, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(p.terms(), 0o644); err != nil { // whatever our umask: the crawler reads them
		return err
	}
	list, err := os.OpenFile(p.List(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer list.Close()
	if user == nil {
		return nil
	}
	return list.Chown(int(user.Uid), int(user.Gid))
}

// ErrNone says that a process has no list.
var ErrNone = errors.New("nothing was lent to this process")

// Terms reads what the manager wrote. A file that others may have written is refused.
func (p Place) Terms() (*Terms, error) {
	t, info, err := readTerms(p.terms())
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != self() || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s was not written by us", p.terms())
	}
	if t.Process != p.ID {
		return nil, fmt.Errorf("%s speaks of another process", p.terms())
	}
	return t, nil
}

// mostTerms bounds the file of terms, in bytes.
const mostTerms = 1 << 20

func readTerms(path string) (*Terms, fs.FileInfo, error) {
	data, info, err := readPlain(path, mostTerms)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNone
	}
	if err != nil {
		return nil, nil, err
	}
	var t Terms
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &t, info, nil
}

// Forget removes the list, then the terms.
func (p Place) Forget() error {
	return errors.Join(gone(os.Remove(p.List())), gone(os.Remove(p.terms())))
}

// Places lists those of a directory, by whatever is left of each. There are none where it is missing or another user's.
func Places(root string) ([]Place, error) {
	info, err := os.Lstat(root)
	if err != nil {
		return nil, gone(err)
	}
	if !ours(info) {
		return nil, fmt.Errorf("%s is not ours", root)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var out []Place
	seen := map[string]bool{}
	for _, e := range entries {
		id := strings.TrimSuffix(strings.TrimSuffix(e.Name(), termsName), listName)
		if !seen[id] {
			seen[id] = true
			out = append(out, Place{root, id})
		}
	}
	return out, nil
}
