package health

import (
	"container/heap"
	"context"
	"hash/maphash"
	"reflect"
	"sync"
	"time"
)

// Seen is what stands in a key.
type Seen struct {
	Text string // "" is nothing
	Err  error  // this key alone cannot be read
}

// Options is what a Monitor needs of the world. The functions may be slow: their contexts end.
type Options struct {
	// Keys reads the tick that waits first for each source of the one list, and the heartbeats of the other.
	Keys func(ctx context.Context, ticks, hearts []string) (waiting, beats map[string]Seen, err error)
	// Runs reads when the oldest run that is open was begun, of each of these sources that has one.
	Runs func(ctx context.Context, sources []string) (map[string]time.Time, error)
	// Looked is told the kind and result of each look: ok, failed, or unknown where it could not be made. May be nil.
	Looked func(k Kind, result string)
}

// Target is a process to be watched.
type Target struct {
	Source    string
	ProcessID string
	Started   time.Time // monotonic
	Starting  bool      // it becomes running by our verdict
	Checks    []Check
	Judge     func(Verdict)    // takes a verdict; must not block
	LastLine  func() time.Time // when the last line of output came, monotonic; nil is never
	// Command runs a program and returns what it printed, or why it is not well, or ErrUnknown. nth is the check's place in Checks.
	Command func(ctx context.Context, nth int, argv []string) (output []byte, err error)
}

// Monitor watches processes. Make it with New; Run is its whole life. Other methods may be called from any goroutine, and do
// not wait.
type Monitor struct {
	o    Options
	seed maphash.Seed
	look func(context.Context, *watch, int, Check) error // of checks that look by themselves

	mu   sync.Mutex
	mail []func(context.Context)
	wake chan struct{}

	// Owned by Run.
	began    time.Time
	watches  map[string]*watch // by source
	due      looks
	keys     asker
	runs     asker
	inFlight sync.WaitGroup
}

// New makes a monitor that watches nothing yet.
func New(o Options) *Monitor {
	if o.Looked == nil {
		o.Looked = func(Kind, string) {}
	}
	m := &Monitor{o: o, seed: maphash.MakeSeed(), look: probe, wake: make(chan struct{}, 1), watches: map[string]*watch{}}
	m.keys.ask, m.runs.ask = m.askKeys, m.askRuns
	return m
}

// Watch watches a process in place of what was watched of this source. For the same process the checks are replaced: what is
// known by checks that stay is kept.
func (m *Monitor) Watch(t Target) { m.post(func(ctx context.Context) { m.begin(ctx, t) }) }

// Forget ends the watching of a process.
func (m *Monitor) Forget(source, processID string) {
	m.post(func(context.Context) {
		if w := m.watches[source]; w != nil && w.ProcessID == processID {
			m.drop(w)
		}
	})
}

// Pushed says that a tick went into the empty list of a source.
func (m *Monitor) Pushed(source string, at time.Time) {
	m.post(func(context.Context) {
		if w := m.watches[source]; w != nil {
			w.tick, w.tickSince = "", at
		}
	})
}

func (m *Monitor) post(f func(context.Context)) {
	m.mu.Lock()
	m.mail = append(m.mail, f)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// idle is how long the monitor sleeps where nothing is due.
const idle = time.Hour

// Run watches until the context ends, and waits for the looks that are under way: they end with it.
func (m *Monitor) Run(ctx context.Context) error {
	m.began = time.Now()
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(m.runOnce(ctx))
		select {
		case <-m.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	m.inFlight.Wait()
	return nil
}

// runOnce does what waits and what is due, and returns how long there is nothing to do.
func (m *Monitor) runOnce(ctx context.Context) time.Duration {
	m.mu.Lock()
	mail := m.mail
	m.mail = nil
	m.mu.Unlock()
	for _, f := range mail {
		f(ctx)
	}
	now := time.Now()
	for len(m.due) > 0 && !m.due[0].at.After(now) {
		m.start(heap.Pop(&m.due).(*look), now)
	}
	wait := min(m.keys.next(ctx, m, now), m.runs.next(ctx, m, now))
	if len(m.due) > 0 {
		wait = min(wait, time.Until(m.due[0].at))
	}
	return wait
}

func (m *Monitor) begin(ctx context.Context, t Target) {
	old := m.watches[t.Source]
	w := &watch{Target: t, passed: !t.Starting}
	if old != nil && old.ProcessID == t.ProcessID {
		w.known = old.known
		w.passed = old.passed || !t.Starting
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	now := time.Now()
	for i, c := range t.Checks {
		l := &look{watch: w, nth: i, Check: c, slot: -1, tally: tally{healthy: c.Healthy, unhealthy: c.Unhealthy}}
		if old != nil && old.ProcessID == t.ProcessID {
			l.keep(old)
		}
		if l.at.IsZero() {
			l.at = m.align(l, now.Add(l.pause(m, now)))
		}
		w.looks = append(w.looks, l)
		heap.Push(&m.due, l)
	}
	if old != nil {
		m.drop(old)
	}
	w.judge(true)
	if len(w.looks) == 0 {
		w.cancel()
		return
	}
	m.watches[t.Source] = w
}

// keep takes over what is known by the same check of the watch before.
func (l *look) keep(old *watch) {
	for _, o := range old.looks {
		if reflect.DeepEqual(o.Check, l.Check) {
			l.tally, l.why, l.steps, l.at = o.tally, o.why, o.steps, o.at
		}
	}
}

func (m *Monitor) drop(w *watch) {
	w.cancel()
	w.over = true
	for _, l := range w.looks {
		if l.slot >= 0 {
			heap.Remove(&m.due, l.slot)
		}
	}
	if m.watches[w.Source] == w {
		delete(m.watches, w.Source)
	}
}

// start makes a look that is due.
func (m *Monitor) start(l *look, now time.Time) {
	l.began = now
	switch l.Kind {
	case TickTaken, Heartbeat:
		m.keys.wait(l)
	case Output, Run:
		m.runs.wait(l)
	default:
		m.inFlight.Go(func() {
			ctx, cancel := context.WithTimeout(l.watch.ctx, l.Timeout)
			defer cancel()
			err := m.look(ctx, l.watch, l.nth, l.Check)
			m.post(func(context.Context) { m.settle(l, resultOf(err)) })
		})
	}
}

// settle takes the result of a look, and plans the next one.
func (m *Monitor) settle(l *look, r result) {
	w := l.watch
	if w.over {
		return
	}
	now := time.Now()
	m.o.Looked(l.Kind, r.word())
	if !r.unknown && l.tally.add(r.why == "", l.began.Sub(w.Started) < l.After) {
		l.why = r.why
		w.judge(false)
	}
	if w.ended {
		m.drop(w) // it is on its way out
		return
	}
	l.at = m.align(l, later(now, l.began.Add(l.pause(m, now))))
	heap.Push(&m.due, l)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// factSlot is how far the times of looks at facts are moved at most, so that those of one moment are one question.
const factSlot = time.Second

func (m *Monitor) align(l *look, at time.Time) time.Time {
	if l.Kind.looks() {
		return at
	}
	slot := min(factSlot, l.Every)
	return m.began.Add((at.Sub(m.began) + slot - 1).Truncate(slot))
}
