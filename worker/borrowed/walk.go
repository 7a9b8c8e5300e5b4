package borrowed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of one removal.
const (
	mostEntries = 1 << 20
	mostDepth   = 256
	batch       = 1024
)

// errLink and errMoved refuse a step on the way to a path.
var (
	errLink  = errors.New("a part of its path is a symbolic link, or no directory")
	errMoved = errors.New("a part of its path changed while it was looked at")
	errMount = errors.New("a part of its path is another mount")
)

// walk is one removal.
type walk struct {
	ctx   context.Context //nolint:containedctx // a walk lives as long as one call
	mount uint64
	left  int // entries that may still be looked at
}

func newWalk(ctx context.Context, root *os.Root) (*walk, error) {
	mount, err := mountOf(root)
	return &walk{ctx: ctx, mount: mount, left: mostEntries}, err
}

// mountOf is the number of the mount that an open directory lies on. A device number would not tell a bind mount apart.
func mountOf(dir *os.Root) (uint64, error) {
	f, err := dir.Open(".")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return 0, fmt.Errorf("look at its mount: %w", err)
	}
	return mountIn(&st), nil
}

// mountIn is the number of the device where the kernel, older than 5.8, does not number mounts: better than to cross all.
func mountIn(st *unix.Statx_t) uint64 {
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return unix.Mkdev(st.Dev_major, st.Dev_minor)
	}
	return st.Mnt_id
}

// enter opens a directory below an open one. A link is refused; so is what became one after the look: the handle is of
// another directory then.
func (w *walk) enter(dir *os.Root, name string) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, errLink
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if err := w.same(next, seen); err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

func (w *walk) same(dir *os.Root, seen fs.FileInfo) error {
	is, err := dir.Stat(".")
	if err != nil {
		return err
	}
	if !os.SameFile(seen, is) {
		return errMoved
	}
	mount, err := mountOf(dir)
	if err == nil && mount != w.mount {
		err = errMount
	}
	return err
}

// find opens the directory that a path below a root lies in. The caller closes it.
func find(ctx context.Context, root, rel string) (*walk, *os.Root, string, error) {
	dir, err := openAllowed(root)
	if err != nil {
		return nil, nil, "", err
	}
	w, err := newWalk(ctx, dir)
	parts := strings.Split(rel, "/")
	for ; err == nil && len(parts) > 1; parts = parts[1:] {
		var next *os.Root
		if next, err = w.enter(dir, parts[0]); err == nil {
			dir.Close()
			dir = next
		}
	}
	if err != nil {
		dir.Close()
		return nil, nil, "", err
	}
	return w, dir, parts[0], nil
}

// remove removes a file, a link, or a directory with all that is in it.
func (w *walk) remove(dir *os.Root, name string, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.left--; w.left < 0 || depth > mostDepth {
		return fmt.Errorf("it holds more than %d entries or is deeper than %d: remove it by hand", mostEntries, mostDepth)
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return gone(err)
	}
	if info.IsDir() {
		if err := w.empty(dir, name, depth); err != nil {
			return gone(err)
		}
	}
	return gone(dir.Remove(name))
}

// empty removes what is in a directory. One failure does not stop the next; the first is told.
func (w *walk) empty(dir *os.Root, name string, depth int) error {
	sub, err := w.enter(dir, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		names, err := readNames(sub)
		if err != nil || len(names) == 0 {
			return err
		}
		failed := 0
		var first error
		for _, n := range names {
			if err := w.remove(sub, n, depth+1); err != nil {
				failed++
				if first == nil {
					first = fmt.Errorf("%s: %w", n, plain(err))
				}
			}
		}
		if failed == len(names) || w.left < 0 || w.ctx.Err() != nil || failed > 0 && len(names) < batch {
			return first
		}
	}
}

// readNames reads some names. Each time it begins anew, as what was removed may make a directory skip others.
func readNames(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(batch)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// gone takes what is not there for removed.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// plain leaves out the operation and the path, which stand before it already.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
