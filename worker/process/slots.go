package process

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxSlots bounds how many managers of one name and scope live on a host at once.
const maxSlots = 8

// BootID names this boot of the machine; pids mean nothing beyond it.
func BootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// slot is the place of one manager among those of its name and scope.
type slot struct {
	name, scope string
	reign       string // the file that names the last active manager of the scope
	number      int
	prefix      uint32
	lock        *os.File // held as long as we live: another manager of this name gets another prefix
}

// takeSlot takes the first free slot of this name and scope. The lock file says which slots living managers hold; the
// kernel lets go of it however we end.
func takeSlot(name, scope string) (*slot, error) {
	for n := range maxSlots {
		file, err := lockSlot(name, scope, n, true)
		if err != nil {
			return nil, err
		}
		if file != nil {
			return &slot{name, scope, reignName(scope), n, prefix(name, scope, n), file}, nil
		}
	}
	return nil, fmt.Errorf("take a lock file: %d managers named %q live on this host already", maxSlots, name)
}

// lost calls sweep with the prefixes of this name and scope that no living manager holds, our own first, and keeps
// others from taking them meanwhile.
func (s *slot) lost(sweep func(prefixes []uint32)) {
	prefixes := []uint32{s.prefix}
	for n := range maxSlots {
		if n == s.number {
			continue
		}
		if file, err := lockSlot(s.name, s.scope, n, false); err == nil && file != nil {
			defer unlock(file, true)
			prefixes = append(prefixes, prefix(s.name, s.scope, n))
		}
	}
	sweep(prefixes)
}

// lockSlot locks the file of a slot; nil where another holds it, or, without create, where there is none.
func lockSlot(name, scope string, slot int, create bool) (*os.File, error) {
	path := slotName(name, scope, slot) + ".lock"
	flags := os.O_RDWR | syscall.O_NOFOLLOW
	if create {
		flags |= os.O_CREATE
	}
	for {
		file, err := os.OpenFile(path, flags, 0o600)
		switch {
		case !create && errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("open the lock file: %w", err)
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil && isAt(file, path):
			return file, nil
		case err == nil: // its last holder removed it meanwhile
			file.Close()
			continue
		}
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
}

// slotName begins the names of what the holder of a slot has in the folder for temporary files: the same over boots and
// containers.
func slotName(name, scope string, slot int) string {
	sum := sha256.Sum256([]byte(name + "\x00" + scope))
	return filepath.Join(os.TempDir(), fmt.Sprintf("crawlkeeper-%x-%d-%d", sum[:6], os.Getuid(), slot))
}

func isAt(file *os.File, path string) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(held, there)
}

// unlock lets go at once: a child that is just being forked still has the file, and with it the lock, until its exec. The
// file stays where something may be left that a later manager has to find: what bears the prefix of this slot.
func unlock(file *os.File, clean bool) {
	if clean {
		_ = os.Remove(file.Name())
	}
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	file.Close()
}

// prefix is the same for a manager that comes back, and another one for another boot, pid namespace, user or slot: a
// container that came back with the same pids is no match.
func prefix(name, scope string, slot int) uint32 {
	ns, _ := os.Readlink("/proc/self/ns/pid")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s\x00%d\x00%d", name, scope, BootID(), ns, os.Getuid(), slot))
	return max(1, binary.BigEndian.Uint32(sum[:])&0x7fffffff) // 63 bits in all: no reader takes a number for negative
}

// Knows tells whether a prefix was made on this boot and in this pid namespace, by a manager of this name, with our
// scope and user. Only then do the pids of its maker mean anything here.
func (s *Spawner) Knows(name string, fingerprint uint32) bool {
	for n := range maxSlots {
		if prefix(name, s.slot.scope, n) == fingerprint {
			return true
		}
	}
	return false
}
