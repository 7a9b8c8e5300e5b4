package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// command says what to start and how.
type command struct {
	argv []string
	dir  string
	log  string              // file that takes stdout and stderr
	env  []string            // nil: serverEnv
	user *syscall.Credential // nil: our own
}

// forker starts processes from one thread that lives until close: parent-death signals follow the thread.
//
// It is no process.Spawner on purpose. That one reaps the orphans of its whole process, and the one that a test is about has to
// be the only one there; nor does it change the user or choose the parent-death signal, both of which Postgres needs.
type forker struct {
	requests chan func()
	done     chan struct{}
}

func newForker() *forker {
	f := &forker{requests: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		offMainThread(func() {
			for request := range f.requests {
				request()
			}
		})
	}()
	return f
}

// offMainThread calls f on a locked thread that ends with f and is not the main one: the main thread never ends before the process
// does, and it is the one that adopts orphans, which others (process.Spawner, the demo) tell from servers by that.
func offMainThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return // still locked: the thread ends with this goroutine
	}
	done := make(chan struct{})
	go func() { // elsewhere, as the main thread is held by the lock above
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
	runtime.UnlockOSThread()
}

// close ends the thread, and with it what was started from it and still runs.
func (f *forker) close() {
	close(f.requests)
	<-f.done
}

// start starts a process in a group of its own.
func (f *forker) start(c command) (*running, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	defer null.Close()
	if c.env == nil {
		c.env = serverEnv()
	}
	attr := &os.ProcAttr{
		Dir:   c.dir,
		Env:   c.env,
		Files: []*os.File{null, log, log},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT, Credential: c.user},
	}
	var p *os.Process
	started := make(chan struct{})
	f.requests <- func() {
		defer close(started)
		p, err = os.StartProcess(c.argv[0], c.argv, attr)
	}
	<-started
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	dropFingerprint(p.Pid)
	r := &running{process: p, log: c.log, exited: make(chan struct{})}
	go r.wait()
	return r, nil
}

// dropFingerprint takes the number away that a child inherits when a process.Spawner in this process forks at the same moment:
// what bears it would be swept with that tree. Without the right to do so the number stays; that moment is microseconds long.
func dropFingerprint(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil)
}

// serverEnv is our environment without what would change a server: PG… variables, and locales that may not exist.
func serverEnv() []string {
	env := []string{"LC_ALL=C.UTF-8", "TZ=UTC"}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Run runs a short program to its end. The error of one that failed holds the end of what it printed.
func (e *Env) Run(ctx context.Context, dir string, env []string, argv ...string) error {
	log, err := os.CreateTemp(e.dir, "run-*.log")
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	if err := log.Close(); err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	return e.run(ctx, command{argv: argv, dir: dir, env: env, log: log.Name()})
}

func (e *Env) run(ctx context.Context, c command) error {
	process, err := e.fork.start(c)
	if err != nil {
		return err
	}
	select {
	case <-process.exited:
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), process.stop(ctx, syscall.SIGKILL))
	}
	if process.state == nil || !process.state.Success() {
		return process.failure()
	}
	return nil
}

// running is a process that was started; exited is closed when it has ended.
type running struct {
	process *os.Process
	log     string
	exited  chan struct{}
	state   *os.ProcessState // readable once exited is closed
}

func (r *running) wait() {
	defer close(r.exited)
	r.state, _ = r.process.Wait()
}

// group signals the process and everything that is still in its group.
func (r *running) group(sig syscall.Signal) error {
	err := syscall.Kill(-r.process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// stop asks the process to end with sig and waits for it; when ctx ends first its whole group is killed.
func (r *running) stop(ctx context.Context, sig syscall.Signal) error {
	_ = r.group(syscall.SIGCONT)
	if err := r.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %d: %w", r.process.Pid, err)
	}
	select {
	case <-r.exited:
		return nil
	case <-ctx.Done():
		_ = r.group(syscall.SIGKILL)
		<-r.exited
		return fmt.Errorf("stop process %d: killed: %w", r.process.Pid, ctx.Err())
	}
}

// failure says how a process ended that should not have, with the end of its log.
func (r *running) failure() error {
	const tail = 2000
	text, _ := os.ReadFile(r.log)
	text = text[max(0, len(text)-tail):]
	return fmt.Errorf("it ended (%v): %s", r.state, strings.TrimSpace(string(text)))
}
