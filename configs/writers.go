package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A configuration names programs, and root runs them: whoever may change the file is root too. So as root a file is read only where
// nobody else may write to it, to the directories on its way, or set a link there.

// writers are the users that may change what we believe: root, ourselves, and who cannot be told apart from root.
type writers []uint32

// trusted returns whom this process trusts, and false where it need not ask: it is not root.
func trusted() (writers, bool) {
	us := os.Geteuid()
	return append(writers{0, uint32(us)}, unmapped()...), us == 0
}

// unmapped is the user that files of all strangers seem to have in a user namespace, such as that of a container without root. The
// real root is one of them.
func unmapped() writers {
	const everybody = "0 0 4294967295"
	ids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || strings.Join(strings.Fields(string(ids)), " ") == everybody {
		return nil
	}
	text, _ := os.ReadFile("/proc/sys/kernel/overflowuid")
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return nil
	}
	return writers{uint32(id)}
}

// mostLinks is how many links the kernel follows.
const mostLinks = 40

// check walks to a file as the kernel does, and says who else may change what is found there and what to do about it.
func (w writers) check(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, links := "/", 0
	for left := strings.Split(path, "/"); len(left) > 0; {
		name := left[0]
		left = left[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		target, err := w.step(next)
		switch {
		case err != nil:
			return err
		case target == "":
			at = next
			continue
		case filepath.IsAbs(target):
			at = "/"
		}
		if links++; links > mostLinks {
			return &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return nil
}

// step looks at one thing on the way. Where it is a link, it returns what stands in it.
func (w writers) step(path string) (target string, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	owned := false
	for _, id := range w {
		owned = owned || st.Uid == id
	}
	const others = 0o022
	kind := st.Mode & unix.S_IFMT
	sticky := kind == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0 // there nobody removes what is another's
	switch {
	case !owned:
		return "", fmt.Errorf("%s belongs to user %d, who could change what root runs: chown root %[1]s, or run as that user", path, st.Uid)
	case kind == unix.S_IFLNK:
		return os.Readlink(path)
	case st.Mode&others != 0 && !sticky && !readOnly(path):
		return "", fmt.Errorf("%s may be written by others (mode %04o), who could change what root runs: chmod go-w %[1]s", path, st.Mode&0o7777)
	}
	return "", nil
}

// readOnly tells whether nobody here can write there, whatever the mode says: a ConfigMap's directory has the mode 0777.
func readOnly(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}
