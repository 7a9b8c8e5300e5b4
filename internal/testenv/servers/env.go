package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	dirPrefix = "crawlkeeper-env-"
	newPrefix = "crawlkeeper-new-" // until it is locked
	lockName  = "lock"
	// closeTimeout bounds the stop of all servers of an Env.
	closeTimeout = 20 * time.Second
)

// Env owns a temporary folder and the servers that were started in it. All its methods may be called from any goroutine.
type Env struct {
	dir  string
	lock *os.File
	fork *forker

	mu      sync.Mutex
	closers []func(context.Context) error // guarded by mu, called last first
	closed  bool                          // guarded by mu
}

// New makes the temporary folder of an Env, and removes folders that killed processes have left.
func New() (*Env, error) {
	removeStale(os.TempDir())
	dir, lock, err := makeDir(os.TempDir())
	if err != nil {
		return nil, err
	}
	return &Env{dir: dir, lock: lock, fork: newForker()}, nil
}

// makeDir makes a folder that is locked before others can take it for a stale one.
func makeDir(root string) (string, *os.File, error) {
	fresh, err := os.MkdirTemp(root, newPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make temporary folder: %w", err)
	}
	lock, err := lockDir(fresh)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(fresh))
	}
	dir := filepath.Join(root, dirPrefix+strings.TrimPrefix(filepath.Base(fresh), newPrefix))
	// Postgres runs as another user, who must be able to reach its own folder below.
	err = errors.Join(os.Chmod(fresh, 0o711), os.Rename(fresh, dir))
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("make temporary folder: %w", err), lock.Close(), os.RemoveAll(fresh))
	}
	return dir, lock, nil
}

// Dir is the folder of this Env. It is gone after Close.
func (e *Env) Dir() string { return e.dir }

// Close stops every server, the last started first, and removes the folder, and those of processes that were killed.
func (e *Env) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	e.mu.Lock()
	closers := e.closers
	e.closers, e.closed = nil, true
	e.mu.Unlock()

	var errs []error
	for _, closer := range slices.Backward(closers) {
		errs = append(errs, closer(ctx))
	}
	e.fork.close()
	errs = append(errs, os.RemoveAll(e.dir), e.lock.Close())
	removeStale(os.TempDir())
	return errors.Join(errs...)
}

// onClose registers what Close has to do. A closed Env does it at once.
func (e *Env) onClose(f func(context.Context) error) error {
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.closers = append(e.closers, f)
	}
	e.mu.Unlock()
	if !closed {
		return nil
	}
	return errors.Join(errors.New("the environment is closed"), f(context.Background()))
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock temporary folder: %w", err), f.Close())
	}
	return f, nil
}

// removeStale removes the folders of processes that are gone: those whose lock nobody holds. What cannot be removed
// (another user's) is left alone.
func removeStale(root string) {
	dirs, _ := filepath.Glob(filepath.Join(root, dirPrefix+"*"))
	for _, dir := range dirs {
		if lock, err := lockDir(dir); err == nil {
			unmountAll(dir)
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}

// FreePort reserves a TCP port on 127.0.0.1 for a program that is yet to be started. It is given back by Close.
func (e *Env) FreePort() (int, error) {
	p, err := reservePort()
	if err != nil {
		return 0, err
	}
	return p.number, e.onClose(func(context.Context) error { p.release(); return nil })
}
