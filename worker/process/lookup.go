package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// lookupLimit bounds the look at the program and its directory before a fork: on a dead mount stat(2) hangs, and in
	// the fork it would hold up every other start.
	lookupLimit = 5 * time.Second
	// A look holds an OS thread while the file system is slow. This many looks run at once; one that takes longer than
	// quickLook is taken for one that hangs, and the next may run.
	quickLooks = 16
	quickLook  = 10 * time.Millisecond
	// hangingLooks bounds the threads that dead mounts can hold: Go aborts at 10,000.
	hangingLooks = 1000
)

// looker finds programs. Looks for one program from one directory are shared: while one hangs, later starts of the same
// program hold no threads of their own.
type looker struct {
	stat  func(string) (fs.FileInfo, error)
	limit time.Duration
	slots chan struct{}

	mu    sync.Mutex
	under map[string]*look // guarded by mu; looks that have not ended
}

type look struct {
	done chan struct{}
	path string
	err  error
}

func newLooker() *looker {
	return &looker{stat: os.Stat, limit: lookupLimit, slots: make(chan struct{}, quickLooks), under: map[string]*look{}}
}

var lookups = newLooker()

// Lookup finds the program as execvp would: by its path, seen from the directory, or on the PATH of the environment
// that the program gets. It gives up after five seconds, so that a dead mount holds up nobody else.
func Lookup(ctx context.Context, program, dir string, env []string) (string, error) {
	return lookups.find(ctx, program, dir, env)
}

func (l *looker) find(ctx context.Context, program, dir string, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	k, err := l.begin(program, dir, getenv(env, "PATH"))
	if err != nil {
		return "", err
	}
	select {
	case <-k.done:
		return k.path, k.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "", &StartError{program, "its file or its directory does not answer (a mount that hangs?)", syscall.ETIMEDOUT}
		}
		return "", ctx.Err()
	}
}

// begin starts a look, or joins the one that is under way.
func (l *looker) begin(program, dir, path string) (*look, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := program + "\x00" + dir + "\x00" + path
	if k := l.under[key]; k != nil {
		return k, nil
	}
	if len(l.under) >= hangingLooks {
		return nil, &StartError{program, "too many files and directories do not answer already (mounts that hang?)", syscall.ETIMEDOUT}
	}
	k := &look{done: make(chan struct{})}
	l.under[key] = k
	go func() {
		l.slots <- struct{}{}
		release := sync.OnceFunc(func() { <-l.slots })
		hangs := time.AfterFunc(quickLook, release)
		k.path, k.err = l.lookup(program, dir, path)
		hangs.Stop()
		release()
		l.mu.Lock()
		delete(l.under, key)
		l.mu.Unlock()
		close(k.done)
	}()
	return k, nil
}

func (l *looker) lookup(program, dir, path string) (string, error) {
	if dir != "" {
		info, err := l.stat(dir)
		if err != nil {
			return "", &StartError{program, fmt.Sprintf("working directory %s: %s", dir, reason(err)), err}
		}
		if !info.IsDir() {
			return "", &StartError{program, fmt.Sprintf("working directory %s is not a directory", dir), syscall.ENOTDIR}
		}
	}
	if program == "" {
		return "", &StartError{"(nothing)", "the command is empty", syscall.ENOENT}
	}
	if !strings.Contains(program, "/") {
		return l.searchPath(program, dir, path)
	}
	file := program
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	file, err := filepath.Abs(file)
	if err == nil {
		err = l.executable(file)
	}
	if err != nil {
		return "", &StartError{program, reason(err), err}
	}
	return file, nil
}

func (l *looker) searchPath(program, dir, path string) (string, error) {
	var denied error
	for d := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(d) { // an empty entry, or one relative to the working directory
			d = filepath.Join(dir, d)
		}
		candidate, err := filepath.Abs(filepath.Join(d, program))
		if err != nil {
			continue
		}
		switch err = l.executable(candidate); {
		case err == nil:
			return candidate, nil
		case errors.Is(err, fs.ErrPermission):
			denied = &StartError{program, candidate + ": " + reason(err), err}
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &StartError{program, fmt.Sprintf("no such program on PATH=%q", path), syscall.ENOENT}
}

func (l *looker) executable(path string) error {
	info, err := l.stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	if info.Mode()&0o111 == 0 {
		return syscall.EACCES
	}
	return nil
}

func getenv(env []string, key string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, key+"="); ok {
			return value
		}
	}
	return ""
}
