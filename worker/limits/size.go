package limits

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// sizeEvery is how often directories are measured.
	sizeEvery = 30 * time.Second
	// mostEntries bounds how much of one directory is looked at.
	mostEntries = 100_000
)

// size is what a directory holds.
type size struct {
	bytes   int64
	name    string // of the largest file
	largest int64
}

// sizer measures directories beside the looks, one after the other.
type sizer struct {
	known map[string]size // by process, as last measured
	began time.Time
	done  chan map[string]size // capacity 1: what was measured
	busy  bool
	work  *sync.WaitGroup
}

func newSizer() sizer {
	return sizer{done: make(chan map[string]size, 1), work: &sync.WaitGroup{}}
}

func (s *sizer) wait() { s.work.Wait() }

func (s *sizer) of(process string) size { return s.known[process] }

// look takes what was measured, and begins anew where it is time.
func (s *sizer) look(ctx context.Context, now time.Time, trees []Tree) {
	select {
	case s.known = <-s.done:
		s.busy = false
	default:
	}
	if s.busy || !s.began.IsZero() && now.Sub(s.began) < sizeEvery {
		return
	}
	dirs := map[string]string{}
	for _, t := range trees {
		if t.Limits.TempSize > 0 && t.Temp != "" {
			dirs[t.Process] = t.Temp
		}
	}
	if len(dirs) == 0 {
		s.known = nil
		return
	}
	s.began, s.busy = now, true
	s.work.Go(func() {
		sizes := make(map[string]size, len(dirs))
		for process, dir := range dirs {
			sizes[process] = measure(ctx, dir, mostEntries)
		}
		s.done <- sizes
	})
}

var errEnough = errors.New("that is enough")

// measure adds up what the files below a directory take on the disk, a file of several names once. It follows no symbolic
// link and goes into no other file system; what was removed meanwhile is not there.
func measure(ctx context.Context, dir string, most int) size {
	var sum size
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return sum
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return sum
	}
	defer root.Close()
	top, err := root.Lstat(".")
	if err != nil {
		return sum
	}
	device := top.Sys().(*syscall.Stat_t).Dev
	several := map[uint64]bool{} // inodes with more than one name that were counted
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if most--; most < 0 || ctx.Err() != nil {
			return errEnough
		}
		if err != nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Dev != device {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.IsDir() && st.Nlink > 1 {
			if several[st.Ino] {
				return nil
			}
			several[st.Ino] = true
		}
		n := st.Blocks * 512
		sum.bytes += n
		if !d.IsDir() && n > sum.largest {
			sum.largest, sum.name = n, path
		}
		return nil
	})
	return sum
}
