package output

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// chores are the log files whose rotated files wait to be compressed.
type chores struct {
	wake chan struct{}

	mu   sync.Mutex
	keep map[string]int // by path: how many are kept
}

func newChores() chores {
	return chores{wake: make(chan struct{}, 1), keep: make(map[string]int)}
}

func (c *chores) add(path string, keep int) {
	c.mu.Lock()
	c.keep[path] = keep
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *chores) take() (path string, keep int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, keep = range c.keep {
		delete(c.keep, path)
		return path, keep, true
	}
	return "", 0, false
}

// keepOld compresses rotated files, one at a time, until ctx ends. What is left then is done after the next rotation of that log file.
func (fs *files) keepOld(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-fs.old.wake:
		}
		for path, keep, ok := fs.old.take(); ok && ctx.Err() == nil; path, keep, ok = fs.old.take() {
			if err := compressOld(ctx, path, keep); err != nil && ctx.Err() == nil {
				fs.errors.Add(1)
				fs.logger.Warn("old log files cannot be compressed", "path", path, "error", err)
			}
		}
	}
}

// compressOld compresses what was rotated of a log file, also by an earlier manager.
func compressOld(ctx context.Context, path string, keep int) error {
	for {
		files, err := rotatedFiles(path)
		if err != nil {
			return err
		}
		next := ""
		for _, f := range files {
			switch f.kind {
			case "":
				next = f.path // at last the oldest
			case unfinishedName:
				_ = os.Remove(f.path) // of a manager that was killed: nobody else makes them
			}
		}
		if next == "" {
			return nil
		}
		if err := compressFile(ctx, next); err != nil {
			return err
		}
		if err := prune(path, keep); err != nil { // it may have been removed while it was read
			return err
		}
	}
}

// compressFile replaces a file by a compressed one. There is a whole one of them at any moment.
func compressFile(ctx context.Context, path string) (err error) {
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	unfinished := path + unfinishedName
	if err := gzipTo(ctx, unfinished, in); err != nil {
		_ = os.Remove(unfinished)
		return fmt.Errorf("compress %s: %w", path, err)
	}
	if err := os.Rename(unfinished, path+compressedName); err != nil {
		_ = os.Remove(unfinished)
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func gzipTo(ctx context.Context, path string, in io.Reader) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err == nil {
		_, err = io.Copy(zip, untilDone(ctx, in))
	}
	if zip != nil {
		err = errors.Join(err, zip.Close())
	}
	return errors.Join(err, out.Close())
}

// readFunc is a reader.
type readFunc func(b []byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// untilDone reads from in until ctx ends.
func untilDone(ctx context.Context, in io.Reader) io.Reader {
	return readFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return in.Read(b)
	})
}
