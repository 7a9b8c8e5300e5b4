package manager

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
	"crawlkeeper/worker/health"
	"crawlkeeper/worker/output"
)

// pusher writes the lists of ticks.
type pusher interface {
	Push(pushes []push, done func([]pushResult))
	Clean(ctx context.Context, code string)
}

// historian reads where sources are in their history.
type historian interface {
	History(ctx context.Context, codes []string) (map[string]sql.History, error)
}

// journal takes what the fleet writes to Postgres.
type journal interface {
	Process(sql.Process)
	Log(sql.LogLine)
	Mark(sql.Mark)
	MarkLost(sources []string, at time.Time, text string)
	Change(sql.SourceChange)
	Flush(context.Context) error
	Stats() sql.JournalStats
}

// fleet is all sources of this manager, with their workers. Its state belongs to the goroutine of Run; everybody else
// talks to it through the inbox.
type fleet struct {
	conf            *configs.Config
	name            string
	redis           configs.Redis // this and the next never change, so that all goroutines may read them
	postgres        configs.Secret
	tempRoot        string
	environ         []string
	logger          *slog.Logger
	lists           pusher
	history         historian
	streaks         streaks
	journal         journal
	metrics         *status.Metrics
	publish         func(status.Event)
	outputs         *output.Sinks             // nil: no output is taken (tests)
	hooks           *hooks                    // needed where the configuration has hooks or alerts
	needs           worker.Needs              // what all workers share
	monitor         *health.Monitor           // watches crawlers whose adapters have checks; nil: nobody does (tests)
	program         runProgram                // runs the commands of checks
	late            func() bool               // it is not known whether we are still the active manager
	bound           func(time.Time) time.Time // cuts a time that may be another manager's already
	load            func() (*configs.Config, error)
	lost            map[string]time.Time // the last due times of sources that are not there (yet): what earlier managers pushed, and ours of those that were deleted
	identity        identity
	interruptedText string
	holds           holds                                                // sources that may not start now
	tidy            func(remove bool, done func(*control.Cleaning)) bool // asks the janitor; false: it has too much to do
	mayStart        func(context.Context) error                          // waits while another manager may have our place; nil: none can (tests)
	gathers         bool                                                 // what falls due together waits for each other
	census          func()                                               // says that vanished or returned has something new

	inbox  *inbox
	alive  atomic.Int64 // when the loop turned last, in ns since it began; read by others
	clock  clock
	rhythm rhythm

	watched atomic.Bool   // there are alerts; written by Run, read by others
	kill    chan struct{} // closed by killAll: workers that are stopping give no more time
	killAll func()
	bustle  bustle

	// Owned by Run.
	sources  map[string]*source
	adapters map[string]*configs.Adapter // one of each for all its sources, by its name in the configuration
	refused  map[string]string           // codes that are not served, and why, as it was logged
	unknown  *control.FewLines           // about commands for sources that there are not, or not yet
	heap     dueHeap
	loaded   bool // the sources were read once
	alerts   *alerts
	draining bool      // no more ticks
	holdTill mono      // redis is away: no tick before
	offset   time.Time // of the wall clock, when all sources were placed
	hold     time.Duration
	version  int
	rollouts map[*rollout]struct{}
	turns    turns
	hurry    bool    // something is broken: the end stops all at once
	ending   bool    // nothing is started any more
	stages   *stages // in which crawlers are stopped; nil: all at once, or not yet
	early    []early // the oldest first
	looking  bool    // runs are being looked at
	nextLook mono
	vanished map[string]time.Time // sources that were seen to be deleted, until the janitor has written that down
	returned map[string]bool      // sources that are there, likewise
	workers  sync.WaitGroup
	tasks    *sync.WaitGroup // what is done beside the loop and answers somebody: the end waits for it
	stopAll  context.CancelFunc
	workCtx  context.Context //nolint:containedctx // the life of the workers, which begins and ends with Run
}

func (f *fleet) init() {
	f.lost = map[string]time.Time{}
	f.inbox = newInbox()
	f.kill = make(chan struct{})
	f.killAll = sync.OnceFunc(func() { close(f.kill) })
	f.tasks = &sync.WaitGroup{}
	f.clock.began = time.Now()
	if f.clock.skew == nil {
		f.clock.skew = builtInSkew
	}
	f.offset = f.clock.now().offset()
	f.sources = map[string]*source{}
	f.adapters = map[string]*configs.Adapter{}
	f.refused = map[string]string{}
	f.rollouts = map[*rollout]struct{}{}
	f.unknown = control.NewFewLines()
	f.vanished, f.returned = map[string]time.Time{}, map[string]bool{}
	if f.census == nil {
		f.census = func() {}
	}
	if f.bustle.tell == nil {
		f.bustle.tell = func(bool) {}
	}
	f.setAlerts()
	f.turns = turns{open: map[string]int{}, waiting: map[*source]chan struct{}{}}
}

// housekeeping is how often the loop turns although nothing happens, so that it can be seen to live.
const housekeeping = time.Second

// Run lives until the context ends, then stops all crawlers beside each other, but for those that others come after.
func (f *fleet) Run(ctx context.Context) error {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-f.needs.Kill:
			f.killAll()
		case <-over:
		}
	}()
	f.workCtx, f.stopAll = context.WithCancel(context.WithoutCancel(ctx))
	defer f.stopAll()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(f.runOnce(f.clock.now()))
		select {
		case <-f.inbox.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	f.shutDown()
	f.answerCutOff()
	for f.waitForTasks(); f.inbox.runAll(); f.waitForTasks() { // what they found out answers somebody, too
	}
	for _, s := range f.sources {
		s.close()
	}
	return nil
}

// taskLimit bounds, at the end, the wait for what is done beside the loop: a file or a server may hang.
const taskLimit = time.Second

func (f *fleet) waitForTasks() {
	tasks, done := f.tasks, make(chan struct{})
	f.tasks = &sync.WaitGroup{} // one that is waited for takes no more
	go func() { tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(taskLimit):
	}
}

// runOnce does what waits and what is due, and returns how long there is nothing to do.
func (f *fleet) runOnce(now moment) time.Duration {
	f.beat()
	f.noteStep(now)
	f.inbox.run()
	f.refuseEarly(earlyLimit, errTooEarly)
	f.turn(now)
	f.look(now)
	f.alerts.turn(time.Now())
	if len(f.heap) == 0 {
		return f.rhythm.next(housekeeping)
	}
	if f.late() { // until the next beat
		return 10 * time.Millisecond
	}
	rest := f.rhythm.next(housekeeping)
	if time.Duration(f.heap[0].heapAt-f.clock.now().mono) > rest {
		return rest
	}
	return min(max(0, time.Duration(f.nextLookAt()-f.clock.now().mono)), rest)
}

func (f *fleet) beat() { f.alive.Store(int64(time.Since(f.clock.began))) }

// stuckFor says how long the loop has not turned. Any goroutine.
func (f *fleet) stuckFor() time.Duration {
	return time.Since(f.clock.began) - time.Duration(f.alive.Load())
}

func (s *source) close() {
	if s.end != nil {
		s.end(worker.ErrUnwanted)
	}
	if s.output != nil {
		s.output.Close()
	}
}

// query calls a function in the fleet's goroutine and returns what it returned. False where the context ended before: then the
// function may still be called, at any time, so that all it writes has to be its own.
func query[T any](ctx context.Context, f *fleet, do func() T) (T, bool) {
	done := make(chan T, 1)
	f.inbox.put(func() { done <- do() })
	select {
	case v := <-done:
		return v, true
	case <-ctx.Done():
		var none T
		return none, false
	}
}

// environment is what a crawler gets: what its adapter lets it inherit, its own, and what the contract promises. Any
// goroutine.
func (f *fleet) environment(a *configs.Adapter, code string) []string {
	env := a.Inherit(f.environ)
	for name, value := range a.Env {
		env = append(env, name+"="+value)
	}
	env = append(env,
		"CRAWLKEEPER_SOURCE="+code,
		"CRAWLKEEPER_START_URLS_KEY="+f.redis.StartURLs(code))
	if a.PassURLs {
		env = append(env,
			"CRAWLKEEPER_REDIS_URL="+f.redis.URL.Reveal(),
			"CRAWLKEEPER_POSTGRES_URL="+f.postgres.Reveal())
	}
	return env
}
