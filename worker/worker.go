package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crawlkeeper/worker/output"
	"crawlkeeper/worker/process"
)

// Process is one incarnation of a crawler. *process.Process is one.
type Process interface {
	Pid() int
	Binary() string
	StartTime() uint64
	Fingerprint() uint64
	Exited() <-chan struct{}
	OnExit(f func()) // calls f, which must not block, once Exited is closed; to be called once
	Exit() process.Exit
	Ask(sig syscall.Signal) error    // to end
	Signal(sig syscall.Signal) error // anything else
	Kill() error
	Sweep(ctx context.Context) (process.Report, error)
	Sample() // looks at its tree
	Saw(rss int64)
	Peak() int64 // the highest seen, in bytes
}

// Observer is told what happens, by the worker's goroutine. Its methods must not block.
type Observer interface {
	Moved(m Move)
	Process(i Incarnation)
}

// Hooks are called at points at which the worker waits.
type Hooks interface {
	// Before is called before a process is started; an error is a start that failed. It is called by another goroutine than
	// the worker's, which waits for it.
	Before(ctx context.Context, i Incarnation) error
	// BeforeStop returns what is to be done before a crawler is asked to end; nil is nothing.
	BeforeStop(i Incarnation) func(context.Context)
}

// Needs is what a worker needs of the world.
type Needs struct {
	Start    func(context.Context, process.Spec) (Process, error)
	Open     func() (*output.Stream, error)  // output of the next process; nil is none
	Gate     func(ctx context.Context) error // waits until a start is allowed; nil is always
	Clean    func(ctx context.Context)       // what must be gone before a start; nil is nothing
	Look     func(pid int) []string          // what a tree does, before it is ended for not being well; may take for ever; nil is nothing
	Hooks    Hooks                           // what others want at points of a process's life; nil is nothing
	Observer Observer
	Kill     <-chan struct{} // closed: whoever is asked to end gets no more time
	Logger   *slog.Logger

	// Catches tells whether a process would not end by a signal; nil is always.
	Catches func(pid int, sig syscall.Signal) bool
}

// Spec is how the crawler of this source is run. It is replaced, never changed.
type Spec struct {
	Key         string          // a crawler that was started by a Spec of another key has to be started anew
	Process     process.Spec    // its ID, Env and output are set at each start
	Env         func() []string // the environment; nil is an empty one
	StopSignal  syscall.Signal  // asks the crawler to end
	StopTimeout time.Duration
	Delay       Delay
	Judged      bool // somebody watches it: it is running once a verdict says that it is well
	Restart     Policy
}

func (s *Spec) same(other *Spec) bool {
	return s == other || s != nil && other != nil && s.Key == other.Key
}

// Desire is what the fleet wants of a worker.
type Desire struct {
	Up    bool
	Spec  *Spec // needed where Up
	By    string
	Cause Cause // of the end, where this desire ends a process; default Stopped or Restarted
}

// ErrSuperseded answers a wish that a later one replaced.
var ErrSuperseded = errors.New("superseded")

// ErrUnwanted answers a wish for a crawler where, by then, none is wanted.
var ErrUnwanted = errors.New("no crawler is wanted for this source any more")

// ErrShutdown answers a wish that the end of the manager cut off.
var ErrShutdown = errors.New("the manager is shutting down")

// Kind of a wish.
type Kind string

// The kinds.
const (
	Restart Kind = "restart"
	Start   Kind = "start"
	Stop    Kind = "stop"
)

// wish is something that was asked for, and who waits for it.
type wish struct {
	kind    Kind
	waiters []func(error)
}

func (w *wish) answer(err error) {
	for _, f := range w.waiters {
		f(err)
	}
}

// merge returns what is left to do of two wishes, the second of which came later: the same kind is one, of different
// ones the later wins.
func merge(a, b *wish) *wish {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.kind == b.kind:
		a.waiters = append(a.waiters, b.waiters...)
		return a
	}
	a.answer(ErrSuperseded)
	return b
}

// Worker keeps the crawler of one source alive.
type Worker struct {
	code string
	n    Needs
	snap atomic.Pointer[Snapshot]

	process atomic.Pointer[Process] // the one that runs; written by the worker's goroutine, read by all
	goOn    func()                  // what that goroutine does; this and the next are written by Live, before it begins
	dying   <-chan struct{}         // closed: the worker has to end

	// The mailbox: one slot, merged by whoever sends, emptied by the worker's goroutine.
	mu      sync.Mutex
	asleep  bool // that goroutine has ended, as there was nothing to do; who wakes the worker begins another
	desire  *Desire
	wished  *wish
	judged  *Verdict
	noticed *notice
	closed  error         // why nothing is taken any more
	mail    chan struct{} // capacity 1: something is in the slot

	// Everything below belongs to the worker's goroutine. One that ends hands it to the next by way of asleep.
	now     Snapshot
	inc     *Incarnation // of the process that runs; nil before it was started, and once its end has begun
	want    Desire
	wish    *wish    // to be fulfilled
	served  *wish    // fulfilled by the process that is starting, once that is well
	spec    *Spec    // the process that runs was started by
	notice  *notice  // to be sent once the crawler is up
	judge   *Verdict // the last one about the process that runs; nil before the first
	streak  streak
	refused *Spec // its policy does not let a crawler start that is wanted; nil: it may
	starts  int
}

// New makes a worker that wants nothing yet.
func New(code string, n Needs) *Worker {
	w := &Worker{code: code, n: n, mail: make(chan struct{}, 1)}
	w.now = Snapshot{Phase: Stopped, Since: time.Now()}
	w.publish()
	return w
}

// Snapshot of now. Any goroutine.
func (w *Worker) Snapshot() *Snapshot { return w.snap.Load() }

// Saw keeps the memory that the tree that runs was seen to use, so that its highest value is known at its end. Where trees
// bear no number a look at the tree is worth its price: it is remembered what belongs to it. Any goroutine.
func (w *Worker) Saw(rss int64, look bool) {
	p := w.process.Load()
	switch {
	case p == nil:
	case look:
		(*p).Sample()
	default:
		(*p).Saw(rss)
	}
}

// Want says what is wanted from now on. Any goroutine; does not wait.
func (w *Worker) Want(d Desire) { w.send(&d, nil) }

// Wish asks for something once, and says what is wanted from now on. done is called exactly once: with nil when it has
// taken effect (restart and start: a new process runs; stop: nothing of it is left), else with the reason. It is called
// by the worker's goroutine, or at once by the caller's, and must not block.
func (w *Worker) Wish(kind Kind, d Desire, done func(error)) {
	w.send(&d, &wish{kind: kind, waiters: []func(error){done}})
}

func (w *Worker) send(d *Desire, asked *wish) {
	w.mu.Lock()
	if w.closed != nil {
		w.mu.Unlock()
		if asked != nil {
			asked.answer(w.closed)
		}
		return
	}
	w.desire = d
	w.wished = merge(w.wished, asked)
	w.mu.Unlock()
	w.wake()
}

// Verdict is what somebody who watches the crawler found: health checks, limits.
type Verdict struct {
	ProcessID string // of which process it speaks; for any other it means nothing
	Phase     Phase  // Running (it is well), Unhealthy or Stalled; only the last two mean something in one that ends the process
	Why       string // of the last two, or of the end, in words
	End       Cause  // not empty: the process has to end for this

	// Of an end.
	By     string        // who is named as having asked for it; empty is the manager
	Within time.Duration // how long it may take, where that is less than the stop timeout; 0 is all of that
}

func (v *Verdict) unwell() bool { return v.Phase == Unhealthy || v.Phase == Stalled }

// final tells that no other verdict about the same process counts any more.
func (v *Verdict) final(id string) bool { return v != nil && v.End != "" && v.ProcessID == id }

// Judge says how the crawler is. The last verdict counts, but of those that end the process the first. Any goroutine;
// does not wait.
func (w *Worker) Judge(v Verdict) {
	w.mu.Lock()
	// One that speaks of a process that is gone must not replace the one about its successor, which is not said again.
	news := v.ProcessID == w.Snapshot().ProcessID && !w.judged.final(v.ProcessID)
	if news {
		w.judged = &v
	}
	w.mu.Unlock()
	if news {
		w.wake()
	}
}

// wake is called after something has happened. Any goroutine; does not wait.
func (w *Worker) wake() {
	select {
	case w.mail <- struct{}{}:
	default:
	}
	w.mu.Lock()
	asleep := w.asleep
	w.asleep = false
	w.mu.Unlock()
	if asleep {
		go w.goOn()
	}
}

// sleep tells whether nothing has happened that was not seen yet. Then the worker's goroutine has to end.
func (w *Worker) sleep(ctx context.Context, p Process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-p.Exited():
		return false
	default:
	}
	w.asleep = len(w.mail) == 0 && ctx.Err() == nil
	return w.asleep
}

// read empties the slot.
func (w *Worker) read() {
	w.mu.Lock()
	d, asked, v := w.desire, w.wished, w.judged
	w.desire, w.wished, w.judged = nil, nil, nil
	w.notice, w.noticed = join(w.notice, w.noticed), nil
	w.mu.Unlock()
	if v != nil && v.ProcessID == w.now.ProcessID && !w.judge.final(v.ProcessID) {
		w.judge = v
	}
	if d != nil {
		w.want = *d
	}
	w.needless()
	w.wish = merge(w.wish, asked)
	if asked != nil && asked.kind == Restart {
		w.forgive()
	}
}

// answer ends the wish that is to be fulfilled.
func (w *Worker) answer(err error) { answer(&w.wish, err) }

func answer(asked **wish, err error) {
	if *asked != nil {
		(*asked).answer(err)
		*asked = nil
	}
}

func (w *Worker) restartWished() bool { return w.wish != nil && w.wish.kind == Restart }

// close answers what waits and refuses what comes. A worker that was not ended because it is unwanted ends with its
// manager.
func (w *Worker) close(cause error) {
	why := ErrShutdown
	if errors.Is(cause, ErrUnwanted) {
		why = ErrUnwanted
	}
	w.mu.Lock()
	w.closed = why
	asked, n := w.wished, join(w.notice, w.noticed)
	w.wished, w.noticed, w.notice = nil, nil, nil
	w.mu.Unlock()
	if n != nil {
		n.answer(why)
	}
	w.answer(why)
	answer(&w.served, why)
	answer(&asked, why)
}

// logger is made when there is something to say: a logger for each source would be half a kilobyte.
func (w *Worker) logger() *slog.Logger { return w.n.Logger.With("source", w.code) }

func (w *Worker) move(to Phase, cause Cause) {
	from := w.now.Phase
	if from == to {
		return
	}
	if !CanMove(from, to) {
		w.logger().Error("a move that the table of phases does not have", "from", from, "to", to)
	}
	w.now.Phase, w.now.Since = to, time.Now()
	if to.Up() && !from.Up() {
		w.now.UpAt = w.now.Since
	}
	w.publish()
	w.n.Observer.Moved(Move{Source: w.code, From: from, To: to, Cause: cause, At: w.now.Since})
}

func (w *Worker) publish() {
	s := w.now
	w.snap.Store(&s)
}

func (w *Worker) jitter(d Delay, pause time.Duration) time.Duration {
	return d.WithJitter(pause, rand.Float64())
}
