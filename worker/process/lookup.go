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
	"syscall"
	"time"
)

// lookupLimit bounds the look at the program and its directory before a fork: on a dead mount stat(2) hangs, and in
// the fork it would hold up every other start.
const lookupLimit = 5 * time.Second

// Lookup finds the program as execvp would: by its path, seen from the directory, or on the PATH of the environment
// that the program gets. It gives up after five seconds, so that a dead mount holds up nobody else.
func Lookup(ctx context.Context, program, dir string, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	type found struct {
		path string
		err  error
	}
	c := make(chan found, 1)
	go func() {
		path, err := lookup(program, dir, env)
		c <- found{path, err}
	}()
	select {
	case f := <-c:
		return f.path, f.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "", &StartError{program, "its file or its directory does not answer (a mount that hangs?)", syscall.ETIMEDOUT}
		}
		return "", ctx.Err()
	}
}

func lookup(program, dir string, env []string) (string, error) {
	if dir != "" {
		info, err := os.Stat(dir)
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
	if strings.Contains(program, "/") {
		path := program
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		path, err := filepath.Abs(path)
		if err == nil {
			err = executable(path)
		}
		if err != nil {
			return "", &StartError{program, reason(err), err}
		}
		return path, nil
	}
	return searchPath(program, dir, getenv(env, "PATH"))
}

func searchPath(program, dir, path string) (string, error) {
	var denied error
	for d := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(d) { // an empty entry, or one relative to the working directory
			d = filepath.Join(dir, d)
		}
		candidate, err := filepath.Abs(filepath.Join(d, program))
		if err != nil {
			continue
		}
		switch err = executable(candidate); {
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

func executable(path string) error {
	info, err := os.Stat(path)
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

// reason says an error in words that tell what to do.
func reason(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	switch errno {
	case syscall.ENOENT:
		return "no such file (or its interpreter is missing)"
	case syscall.EACCES:
		return "permission denied (is it executable, and may this user reach it?)"
	case syscall.ENOEXEC:
		return "not a program of this machine (a script without #! line?)"
	case syscall.EAGAIN:
		return "no more processes allowed for this user (raise the limit on processes)"
	case syscall.EMFILE, syscall.ENFILE:
		return "out of file descriptors (raise the limit on open files)"
	case syscall.ENOMEM:
		return "out of memory"
	case syscall.ETXTBSY:
		return "its file is open for writing"
	default:
		return errno.Error()
	}
}
