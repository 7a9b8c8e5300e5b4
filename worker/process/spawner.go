package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrStopped is returned by Start once the Spawner has ended.
var ErrStopped = errors.New("the spawner has ended")

// Options of a Spawner.
type Options struct {
	Name   string // who starts the trees; with Scope it makes the fingerprint
	Scope  string // what keeps two managers of one name apart, e.g. the Redis address and prefix
	Logger *slog.Logger
}

// Ways says what this machine offers for ending trees whole.
type Ways struct {
	Fingerprint bool   // RLIMIT_LOCKS can be set
	Subreaper   bool   // orphans come to us
	Children    bool   // the kernel lists children, so /proc is not scanned
	Why         string // what is missing, and what follows from it; empty where nothing is
}

// Spawner starts processes and ends their trees. All methods may be called from any goroutine.
type Spawner struct {
	logger *slog.Logger
	finger *fingerprint
	ways   Ways
	forks  chan *forkRequest
	sweeps chan *tree
	wake   chan struct{} // a tree waits for its next pass
	ended  chan struct{} // closed when the forking thread has ended
	null   *os.File
	live   atomic.Int64 // processes that were started and are not swept
}

type forkRequest struct {
	path   string
	argv   []string
	attr   *syscall.ProcAttr
	number uint64
	pidfd  int
	done   chan struct{}
	pid    int
	err    error
	at     time.Time
}

// New tests what this machine offers and takes the lock file of this name. It refuses kernels without pidfd (before 5.4).
func New(o Options) (*Spawner, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a child subreaper: %w", err)
	}
	// What we were started with beyond the three standard descriptors is no crawler's business either. (Linux 5.11.)
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err := tryPidfd(); err != nil {
		return nil, err
	}
	finger, err := newFingerprint(o.Name, o.Scope)
	if err != nil {
		return nil, err
	}
	finger.test()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unlock(finger.lock, true)
		return nil, fmt.Errorf("open the null device: %w", err)
	}
	s := &Spawner{
		logger: o.Logger, finger: finger, null: null,
		forks: make(chan *forkRequest), sweeps: make(chan *tree), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	s.ways = ways(finger.works)
	return s, nil
}

// Probe tells what this machine offers, and takes no name. The error says why nothing can be started here.
func Probe() (Ways, error) {
	if err := tryPidfd(); err != nil {
		return Ways{}, err
	}
	finger := fingerprint{prefix: 1}
	finger.test()
	return ways(finger.works), nil
}

func tryPidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("open a pidfd (Linux 5.10 or later is needed): %w", err)
	}
	unix.Close(fd)
	return nil
}

func ways(fingerprint bool) Ways {
	w := Ways{Fingerprint: fingerprint, Subreaper: true}
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	w.Children = err == nil
	if !w.Fingerprint {
		w.Why = "RLIMIT_LOCKS has a hard limit here: trees are found by parentage, group and environment only"
	} else if !w.Children {
		w.Why = "this kernel does not list children: /proc is scanned for each end"
	}
	return w
}

// Ways tells what this machine offers.
func (s *Spawner) Ways() Ways { return s.ways }

// Prefix is the part of the fingerprint that all trees of this Spawner share.
func (s *Spawner) Prefix() uint32 { return s.finger.prefix }

// Run forks, reaps and sweeps until the context ends. End every process first: the kernel kills the leaders of all that
// still run when the forking thread ends, and nobody sweeps their trees then.
func (s *Spawner) Run(ctx context.Context) error {
	defer s.null.Close()
	defer func() { unlock(s.finger.lock, s.live.Load() == 0) }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	var threads sync.WaitGroup
	threads.Go(func() { offMainThread(func() { s.forkLoop(ctx) }) })
	newKeeper(s).run(ctx, signals)
	threads.Wait()
	return nil
}

// offMainThread calls f on a locked thread that is not the main one: orphans are adopted by the main thread, and only
// while programs are forked by another one can the two kinds of children be told apart. The thread ends with f.
func offMainThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return // still locked: the thread ends with this goroutine
	}
	done := make(chan struct{})
	go func() { // runs elsewhere, as the main thread is held by the lock above
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
	runtime.UnlockOSThread()
}

func (s *Spawner) forkLoop(ctx context.Context) {
	defer close(s.ended)
	for {
		select {
		case r := <-s.forks:
			fork(r)
			close(r.done)
		case <-ctx.Done():
			return
		}
	}
}

func fork(r *forkRequest) {
	forking.Lock()
	defer forking.Unlock()
	stamped(r.number, func() { r.pid, r.err = syscall.ForkExec(r.path, r.argv, r.attr) })
	r.at = time.Now()
}

// textBusyTries bounds how often a program whose file is just being written is tried again (golang/go#22315).
const textBusyTries = 5

// Start starts a program. A start that failed is a *StartError, after which nothing is left. The context bounds the
// start alone, not the life of the process.
func (s *Spawner) Start(ctx context.Context, spec Spec) (*Process, error) {
	if len(spec.Argv) == 0 {
		return nil, &StartError{"(nothing)", "the command is empty", syscall.ENOENT}
	}
	path, err := Lookup(ctx, spec.Argv[0], spec.Dir, spec.Env)
	if err != nil {
		return nil, err
	}
	env := setenv(spec.Env, Marker, spec.ID)
	temp := ""
	if spec.TempRoot != "" {
		temp = filepath.Join(spec.TempRoot, spec.ID)
		if err := os.MkdirAll(temp, 0o700); err != nil {
			return nil, &StartError{spec.Argv[0], "temporary directory: " + reason(err), err}
		}
		env = setenv(env, "TMPDIR", temp)
	}
	p, err := s.start(ctx, spec, path, env)
	if err != nil {
		if temp != "" {
			os.RemoveAll(temp)
		}
		return nil, err
	}
	p.temp = temp
	s.live.Add(1)
	go p.wait()
	return p, nil
}

// setenv returns a copy in which the variable stands once: of two of one name, programs differ in which they read.
func setenv(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+2)
	for _, entry := range env {
		if !strings.HasPrefix(entry, name+"=") {
			out = append(out, entry)
		}
	}
	return append(out, name+"="+value)
}

func (s *Spawner) start(ctx context.Context, spec Spec, path string, env []string) (*Process, error) {
	file := func(f *os.File) uintptr {
		if f == nil {
			f = s.null
		}
		return f.Fd()
	}
	for try := 1; ; try++ {
		r := &forkRequest{path: path, argv: spec.Argv, number: s.finger.next(), pidfd: -1, done: make(chan struct{})}
		r.attr = &syscall.ProcAttr{
			Dir: spec.Dir, Env: env,
			Files: []uintptr{file(spec.Stdin), file(spec.Stdout), file(spec.Stderr)},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &r.pidfd},
		}
		select {
		case s.forks <- r:
		case <-s.ended:
			return nil, ErrStopped
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		<-r.done
		runtime.KeepAlive(spec)
		if r.err == nil {
			return s.register(r, spec.ID, path)
		}
		if errors.Is(r.err, syscall.ETXTBSY) && try < textBusyTries {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		return nil, &StartError{spec.Argv[0], reason(r.err), r.err}
	}
}

func (s *Spawner) register(r *forkRequest, id, path string) (*Process, error) {
	p := &Process{
		spawner: s, id: id, path: path, pid: r.pid, number: r.number, started: r.at,
		exited: make(chan struct{}), tree: &tree{id: id, leader: r.pid, number: r.number, done: make(chan struct{})},
	}
	p.startTime, _ = StartTime(r.pid)
	p.tree.start = p.startTime
	if err := p.open(r.pidfd); err != nil { // a process that cannot be watched must not live
		_ = syscall.Kill(r.pid, syscall.SIGKILL)
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(r.pid, &status, 0, nil)
		return nil, &StartError{path, "its pidfd cannot be watched", err}
	}
	return p, nil
}
