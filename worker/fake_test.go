package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// fakeProcess ends when it is told to, or some time after it was asked to.
type fakeProcess struct {
	f       *fake
	pid     int
	started time.Time
	once    sync.Once
	exited  chan struct{}
	exit    process.Exit
	asked   bool // to end
	swept   bool
}

func (p *fakeProcess) Saw(int64)               {}
func (p *fakeProcess) Sample()                 {}
func (p *fakeProcess) Peak() int64             { return 1 << 20 }
func (p *fakeProcess) Pid() int                { return p.pid }
func (p *fakeProcess) Binary() string          { return "/fake" }
func (p *fakeProcess) StartTime() uint64       { return 1 }
func (p *fakeProcess) Fingerprint() uint64     { return uint64(p.pid) }
func (p *fakeProcess) Exited() <-chan struct{} { return p.exited }
func (p *fakeProcess) OnExit(f func())         { go func() { <-p.exited; f() }() }
func (p *fakeProcess) Exit() process.Exit      { <-p.exited; return p.exit }
func (p *fakeProcess) Kill() error {
	p.end(process.Exit{Code: -1, Signal: syscall.SIGKILL})
	return nil
}

func (p *fakeProcess) end(e process.Exit) {
	p.once.Do(func() {
		e.At, e.Ran = time.Now(), time.Since(p.started)
		p.exit = e
		close(p.exited)
	})
}

func (p *fakeProcess) Ask(syscall.Signal) error {
	p.asked = true
	if p.f.deaf {
		return nil
	}
	time.AfterFunc(p.f.stopTakes, func() { p.end(process.Exit{}) })
	return nil
}

func (p *fakeProcess) Signal(sig syscall.Signal) error {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if p.asked {
		p.f.t.Error("a signal to a crawler that is being stopped")
	}
	p.f.signals = append(p.f.signals, signalled{p.pid, sig})
	return nil
}

func (p *fakeProcess) Sweep(ctx context.Context) (process.Report, error) {
	_ = p.Kill()
	if p.f.unsweepable(ctx) {
		return process.Report{Left: []process.Survivor{{Pid: 99, Name: "stuck"}}}, ctx.Err()
	}
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if !p.swept {
		p.swept = true
		p.f.alive--
	}
	return process.Report{}, nil
}

// fake is the world of a worker: it starts fake processes and keeps what it was told.
type fake struct {
	t         *testing.T
	deaf      bool // processes ignore TERM
	stopTakes time.Duration
	startErr  func(n int) error
	startGate chan struct{} // a start waits for it, if it is there
	hooks     Hooks

	mu     sync.Mutex
	stuck  chan struct{} // sweeps fail until it is closed
	procs  []*fakeProcess
	starts []time.Time
	alive  int
	moves  []Move
	incs   []Incarnation

	signals []signalled
}

// signalled is a signal that is no request to end.
type signalled struct {
	pid int
	sig syscall.Signal
}

func (f *fake) unsweepable(ctx context.Context) bool {
	f.mu.Lock()
	stuck := f.stuck
	f.mu.Unlock()
	if stuck == nil {
		return false
	}
	select {
	case <-stuck:
		return false
	case <-ctx.Done():
		return true
	}
}

func (f *fake) start(ctx context.Context, _ process.Spec) (Process, error) {
	if f.startGate != nil {
		select {
		case <-f.startGate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts = append(f.starts, time.Now())
	if f.startErr != nil {
		if err := f.startErr(len(f.starts)); err != nil {
			return nil, err
		}
	}
	f.alive++
	if f.alive > 1 {
		f.t.Errorf("%d trees of one source are alive", f.alive)
	}
	p := &fakeProcess{f: f, pid: 100 + len(f.procs), started: time.Now(), exited: make(chan struct{})}
	f.procs = append(f.procs, p)
	return p, nil
}

func (f *fake) Moved(m Move) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !CanMove(m.From, m.To) {
		f.t.Errorf("%s -> %s is not in the table", m.From, m.To)
	}
	f.moves = append(f.moves, m)
}

func (f *fake) Process(i Incarnation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.incs = append(f.incs, i)
}

func (f *fake) last() *fakeProcess {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.procs[len(f.procs)-1]
}

func (f *fake) phases() []Phase {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []Phase{}
	for _, m := range f.moves {
		out = append(out, m.To)
	}
	return out
}

// causes of all processes that ended.
func (f *fake) causes() []Cause {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Cause
	for _, i := range f.incs {
		if i.Status == StatusExited {
			out = append(out, i.Cause)
		}
	}
	return out
}

var plain = &Spec{
	Process:     process.Spec{Argv: []string{"crawl"}},
	StopTimeout: 15 * time.Second,
	Delay:       Delay{Min: 5 * time.Second, Max: 300 * time.Second, Stable: 60 * time.Second},
}

var up = Desire{Up: true, Spec: plain, By: "test"}

// bubble runs a worker in a synctest bubble, until the test function returns.
func bubble(t *testing.T, f *fake, test func(w *Worker, shutdown context.CancelFunc)) {
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		kill := make(chan struct{})
		w := New("src", Needs{Start: f.start, Hooks: f.hooks, Observer: f, Kill: kill, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		w.Live(ctx, func() { close(done) })
		test(w, cancel)
		cancel()
		f.mu.Lock()
		if f.stuck != nil {
			select {
			case <-f.stuck:
			default:
				close(f.stuck)
			}
		}
		f.mu.Unlock()
		<-done
		if f.alive != 0 {
			t.Errorf("%d processes are left", f.alive)
		}
	})
}

// answer is what a wish was answered with; it fails the test where that is more than one answer.
func ask(t *testing.T, w *Worker, k Kind, d Desire) func() (error, bool) {
	c := make(chan error, 9)
	w.Wish(k, d, func(err error) { c <- err })
	return func() (error, bool) {
		synctest.Wait()
		select {
		case err := <-c:
			if len(c) > 0 {
				t.Errorf("%s was answered twice", k)
			}
			return err, true
		default:
			return nil, false
		}
	}
}

func wantAnswer(t *testing.T, got func() (error, bool), want error) {
	t.Helper()
	err, ok := got()
	if !ok || !errors.Is(err, want) {
		t.Errorf("answer %v (%v), want %v", err, ok, want)
	}
}

func wantPhase(t *testing.T, w *Worker, want Phase) {
	t.Helper()
	synctest.Wait()
	if got := w.Snapshot().Phase; got != want {
		t.Errorf("phase %s, want %s", got, want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
