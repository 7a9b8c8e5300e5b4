package manager

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
	"crawlkeeper/worker/borrowed"
	"crawlkeeper/worker/output"
	"crawlkeeper/worker/process"
)

// ErrOldManager ends a manager that found another kind of manager at work.
var ErrOldManager = errors.New("a hand-written manager still runs: it keeps the status hash alive; stop it first")

// Options of a manager.
type Options struct {
	Config  *configs.Config
	Load    func() (*configs.Config, error) // reads the configuration again, for a reload
	Redis   redis.UniversalClient
	Store   *sql.Store
	Environ []string // what crawlers may inherit
	Logger  *slog.Logger

	Forwarder *output.Forwarder // takes the crawlers' output; nil writes text to standard error
	Step      []string          // begins the command that prepares a process for its program: see process.ExecStep
	Kill      <-chan struct{}   // closed: crawlers that are being stopped get no more time

	// Busy is told when many crawlers start or end, and when it is calm again; at the start it is busy. Nil: nobody is told. Any
	// goroutine calls it.
	Busy func(busy bool)

	Version, Revision string
}

// Manager is the daemon. Make it with New; Run is its whole life.
type Manager struct {
	Options
	conf    *configs.Config
	spawner *process.Spawner
	outputs *output.Sinks
	metrics *status.Metrics
	journal *sql.Journal
	replies *control.Replier
	events  *status.Publisher
	lists   *lists
	lease   *lease
	hooks   *hooks
	fleet   *fleet
	born    time.Time
	rhythm  rhythm      // of all that is done regularly
	bound   chan string // the HTTP end's address

	active      atomic.Bool
	ready       atomic.Bool // the sources were read
	stopping    atomic.Bool
	postgresUp  atomic.Bool
	lostKept    map[string][]borrowed.Kept // by process, what an earlier manager took and could not be given back; written before the loops begin
	activeSince atomic.Int64               // wall clock in ns
	kick        chan struct{}              // the sources are to be read at once
	census      chan struct{}              // sources came or went
	tidying     chan tidying               // what the janitor was asked for
	polledAt    atomic.Int64
}

// New makes a manager and tests what the machine offers.
func New(o Options) (*Manager, error) {
	conf := o.Config
	m := &Manager{Options: o, conf: conf, born: time.Now(), bound: make(chan string, 1), kick: make(chan struct{}, 1), census: make(chan struct{}, 1), tidying: make(chan tidying, 16)}
	m.rhythm = rhythm{m.born}
	var err error
	m.spawner, err = process.New(process.Options{
		Name: conf.Manager.Name, Scope: conf.Redis.Prefix + "\x00" + conf.Redis.URL.Reveal(), Logger: o.Logger, Step: o.Step, Keys: m.returnKey,
	})
	if err != nil {
		return nil, err
	}
	m.outputs, err = output.NewSinks(output.SinksOptions{Forwarder: o.Forwarder, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	m.metrics = status.NewMetrics(status.MetricsOptions{WithoutSources: !conf.HTTP.SourceLabels, Version: o.Version, Revision: o.Revision})
	m.journal = sql.NewJournal(o.Store, sql.JournalOptions{OnMarked: m.metrics.RunsInterrupted, LastAttempt: goodbyeLimit - 200*time.Millisecond, Logger: o.Logger})
	m.replies = control.NewReplier(control.ReplierOptions{Client: o.Redis, Channel: conf.Redis.Replies(), Manager: conf.Manager.Name, Logger: o.Logger})
	m.events = status.NewPublisher(status.PublisherOptions{Client: o.Redis, Channel: conf.Redis.Events(), Dropped: m.metrics.EventsDropped, Logger: o.Logger})
	m.lease = &lease{
		client: o.Redis, key: conf.Redis.ManagerKey(), knows: m.spawner.Knows, deposed: m.spawner.Deposed, reign: m.reignAgain,
		every: conf.Manager.StatusInterval, ttl: conf.Manager.StatusTTL, rhythm: m.rhythm, logger: o.Logger,
	}
	m.lists = newLists(o.Redis, conf.Redis, o.Logger)
	m.lists.holder = func() string { return m.lease.text }
	host, _ := os.Hostname()
	who := identity{Manager: conf.Manager.Name, Host: host, BootID: process.BootID()}
	m.hooks = newHooks(m.spawner, m.journal, m.metrics, who, o.Logger)
	m.fleet = m.newFleet(who)
	m.lists.cleaned = func(code string, due time.Time) {
		m.fleet.inbox.put(func() {
			if s := m.fleet.sources[code]; s != nil {
				m.fleet.cleaned(s, due)
			}
		})
	}
	m.observe()
	return m, nil
}

func (m *Manager) newFleet(who identity) *fleet {
	f := &fleet{
		conf: m.conf, name: m.conf.Manager.Name, tempRoot: m.spawner.TempRoot(), environ: m.Environ, logger: m.Logger,
		lists: m.lists, history: m.Store, streaks: m.Store, journal: m.journal, metrics: m.metrics, publish: m.events.Publish, outputs: m.outputs,
		needs:   worker.Needs{Start: starter(m.spawner), Gate: newPacer(m.conf.Manager.StartRate).Wait, Look: process.Look, Catches: process.Catches, Kill: m.Kill},
		monitor: m.monitor(), program: programs(m.spawner),
		redis: m.conf.Redis, postgres: m.conf.Postgres.URL, late: m.lease.late, bound: m.lease.bound,
		rhythm: m.rhythm, load: m.reload, interruptedText: m.conf.Runs.InterruptedText,
		identity: who, hooks: m.hooks, gathers: true, mayStart: m.lease.Gate,
	}
	f.tidy, f.census, f.bustle.tell, f.bustle.rhythm = m.askJanitor, m.tellJanitor, m.Busy, m.rhythm
	f.init()
	return f
}

func (m *Manager) observe() {
	m.metrics.Observe(status.Observed{
		Workers: m.workersByPhase, WaitingTicks: m.waitingTicks, Exhausted: m.exhausted,
		JournalPending: func() int { return m.journal.Stats().Pending },
		JournalDropped: func() map[string]uint64 {
			s := m.journal.Stats()
			return map[string]uint64{"process": s.DroppedProcesses, "log": s.DroppedLogs}
		},
		RedisUp:    func() bool { return m.lease.up.Load() },
		PostgresUp: m.postgresUp.Load, Active: m.active.Load, Unmarked: m.spawner.Unmarked,
	})
}

// goodbyeLimit bounds what is said to servers at the end: a server that hangs must not hold up the end. The next manager
// repairs what was not said.
const goodbyeLimit = 2 * time.Second

// Run is the life of the manager. It ends with the context (nil), or with an error that says which part of it is broken.
func (m *Manager) Run(ctx context.Context) error {
	m.warnOfWays()
	life := context.WithoutCancel(ctx)
	broken, fail := context.WithCancelCause(life)
	defer fail(nil)
	running, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(broken, stop)()
	defer context.AfterFunc(broken, func() { m.fleet.inbox.put(m.fleet.hurryUp) })()

	base := newLoops(life, fail, m.Logger)
	defer base.end()
	base.start("processes", m.spawner.Run)
	base.start("output", m.outputs.Run)
	base.start("http", m.server().Run)
	base.start("bustle", m.fleet.bustle.run)

	left, err := m.take(running)
	if err != nil {
		return ended(ctx, broken, err)
	}
	keep := newLoops(life, fail, m.Logger)
	keep.start("lease", m.lease.Run)
	late := newLoops(life, fail, m.Logger) // what the last words need
	if err := m.prepare(running, left); err != nil {
		err = ended(ctx, broken, err)
		m.goodbye(err, keep, late)
		return err
	}
	late.start("journal", m.journal.Run)
	late.start("replies", m.replies.Run)
	late.start("events", m.events.Run)
	keep.start("lists", m.lists.Run)
	keep.start("status", m.statusLoop)
	hooked := newLoops(life, fail, m.Logger)
	hooked.start("hooks", m.hooks.Run)
	fleet := newLoops(life, fail, m.Logger)
	fleet.start("fleet", m.fleet.Run)
	feed := newLoops(life, fail, m.Logger) // what brings work
	feed.start("sources", m.pollLoop)
	feed.start("commands", m.listener().Run)
	feed.start("usage", m.usageLoop)
	feed.start("repair", m.repairLoop)
	feed.start("prune", m.pruneLoop)
	feed.start("checks", m.fleet.monitor.Run)
	feed.start("janitor", m.janitorLoop)

	<-running.Done()
	if broken.Err() == nil {
		m.drain(broken)
	}
	err = context.Cause(broken) // nil where it was asked to end
	m.stopping.Store(true)
	m.Logger.Info("stopping", "reason", reason(err))
	began := time.Now()
	feed.stop()
	m.spawner.NoSpares()
	fleet.end()
	m.refuseLooks()
	if err == nil {
		m.finishHooks(began)
	}
	hooked.end()
	m.goodbye(err, keep, late, feed)
	m.spawner.DropSpares()
	_ = os.Remove(m.fleet.tempRoot) // it is empty, unless something could not be ended
	m.Logger.Info("stopped")
	return err
}

func reason(err error) string {
	if err == nil {
		return "asked to"
	}
	return err.Error()
}

// ended is nil for an end that was asked for, else what broke, or what stood in the way of the start.
func ended(asked, broken context.Context, err error) error {
	switch {
	case broken.Err() != nil:
		return context.Cause(broken)
	case asked.Err() != nil:
		return nil
	}
	return err
}

// goodbye ends what speaks to servers: the status hash goes, then the key, unless it is in other hands.
func (m *Manager) goodbye(err error, keep, late *loops, more ...*loops) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		all.Go(late.end)
		for _, l := range more {
			all.Go(l.end)
		}
		keep.end()
		if !errors.Is(err, ErrOtherHands) {
			m.leave()
		}
		all.Wait()
	}()
	select {
	case <-done:
	case <-time.After(goodbyeLimit):
		m.Logger.Warn("a server does not answer; the end does not wait for it")
	}
}

func (m *Manager) warnOfWays() {
	w := m.spawner.Ways()
	m.Logger.Info("manager starts", "name", m.conf.Manager.Name, "version", m.Version, "pid", os.Getpid(),
		"processes_by", w.String())
	if w.Why != "" {
		m.Logger.Warn("processes are found by a weaker way here", "reason", w.Why)
	}
}

func (m *Manager) reload() (*configs.Config, error) {
	conf, err := m.Load()
	if err != nil {
		return nil, err
	}
	if fixed := keepFixed(m.conf, conf); len(fixed) > 0 {
		m.Logger.Warn("these keys take effect at the next start only", "keys", strings.Join(fixed, ", "))
	}
	return conf, nil
}

// Reload reads the configuration again, as SIGHUP asks for. A file with an error changes nothing.
func (m *Manager) Reload() {
	m.fleet.inbox.put(func() {
		m.fleet.command(control.Command{Action: control.ActionReload, By: "SIGHUP"}, func(control.Reply) {})
	})
}

func (m *Manager) listener() *control.Listener {
	return control.NewListener(control.ListenerOptions{
		Client: m.Redis, Channel: m.conf.Redis.Control(), Logger: m.Logger, Next: m.rhythm.next,
		Handle: func(_ context.Context, c control.Command) {
			m.fleet.inbox.put(func() { m.fleet.command(c, func(r control.Reply) { m.replies.Reply(r) }) })
		},
		Subscribed: func(context.Context) { m.pollNow() },
		Reply:      func(r control.Reply) { m.replies.Reply(r) },
		Bad:        m.metrics.BadCommand,
	})
}

// leave deletes the status hash, then the key, so that nobody sees a status without its manager. A manager that never became
// active wrote no hash: the one that is there is another's.
func (m *Manager) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if m.active.Load() {
		if err := m.writer().Delete(ctx); err != nil {
			m.Logger.Warn("the status hash could not be deleted; it expires by itself", "error", err)
		}
	}
	m.spawner.Abdicate()
	if err := m.lease.Release(ctx); err != nil {
		m.Logger.Warn("the manager's key could not be released; it expires by itself", "error", err)
	}
}

func (m *Manager) writer() *status.Writer {
	return status.NewWriter(status.WriterOptions{
		Client: m.Redis, Key: m.conf.Redis.Status(), TTL: m.conf.Manager.StatusTTL,
		HolderKey: m.conf.Redis.ManagerKey(), Holder: m.lease.text,
	})
}

// server is the HTTP end. A busy address is waited for: a standby beside the active manager finds it busy.
func (m *Manager) server() *status.Server {
	return &status.Server{
		Listen: m.conf.HTTP.Listen, RetryBusy: true, Logger: m.Logger,
		Bound: func(a net.Addr) { m.bound <- a.String() },
		Handler: status.Handler(status.HandlerOptions{
			Health: m.health, Ready: m.readiness, Metrics: m.metrics, Output: m.outputOf, Pprof: m.conf.HTTP.Pprof,
		}),
	}
}
