package borrowed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is how many links a path may lead over.
const mostLinks = 40

// openAllowed opens an allowed directory. Whoever may write above it could have put a link in its place, so it is no link
// itself, and one on the way to it is followed only where it is root's or our own.
func openAllowed(path string) (*os.Root, error) {
	for range mostLinks {
		dir, instead, err := stepTo(path)
		if err != nil || dir != nil {
			return dir, err
		}
		path = instead
	}
	return nil, &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// stepTo goes down to a path from the root of the file system. At a link that may be followed it returns the path that is
// to be gone instead. The handles need no right to read, as others may only pass through the manager's directory.
func stepTo(path string) (dir *os.Root, instead string, err error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open("/", flags|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, "", err
	}
	defer func() { unix.Close(fd) }()
	gone := "/"
	for rest := strings.Trim(path, "/"); rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next, err := unix.Openat(fd, name, flags, 0)
		if err != nil {
			return nil, "", &os.PathError{Op: "open", Path: filepath.Join(gone, name), Err: err}
		}
		unix.Close(fd)
		fd = next
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, "", &os.PathError{Op: "stat", Path: filepath.Join(gone, name), Err: err}
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			gone = filepath.Join(gone, name)
			continue
		case unix.S_IFLNK:
			if rest != "" && (st.Uid == 0 || int(st.Uid) == self()) {
				return followed(fd, gone, rest)
			}
		}
		return nil, "", errLink
	}
	dir, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd)) // what was looked at, whatever its name leads to by now
	return dir, "", err
}

// followed is the path behind a link in a directory.
func followed(link int, dir, rest string) (*os.Root, string, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link, "", target)
	if err != nil {
		return nil, "", &os.PathError{Op: "readlink", Path: dir, Err: err}
	}
	to := string(target[:n])
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return nil, filepath.Join(to, rest), nil
}
