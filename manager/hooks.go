package manager

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker/hook"
	"crawlkeeper/worker/process"
)

const (
	hooksBound  = 10_000                 // most that wait
	hooksAtOnce = 16                     // of those that nobody waits for
	rowLimit    = 500 * time.Millisecond // how long a start waits until its row is in Postgres
	complainAll = time.Minute            // a hook that goes wrong all the time is a line a minute
)

// The point of an alert, as its event and its metric name it.
const hookAlert = "alert"

// hooks runs what is to run at the points of crawlers' lives. Its methods may be called from any goroutine.
type hooks struct {
	runner   *hook.Runner
	queue    *hook.Queue
	journal  journal
	metrics  *status.Metrics
	logger   *slog.Logger
	identity identity

	mu        sync.Mutex // guards all below
	complains map[string]*complaint
	put       []string        // processes whose final hooks found no room
	own       map[string]bool // processes of ours whose final hooks are owed
	wake      chan struct{}   // capacity 1: there are some
}

// complaint is what was said of a hook that goes wrong.
type complaint struct {
	at     time.Time
	unsaid int
}

func newHooks(s *process.Spawner, j journal, m *status.Metrics, who identity, logger *slog.Logger) *hooks {
	return &hooks{
		runner: hook.NewRunner(s), queue: hook.NewQueue(hooksBound, hooksAtOnce), journal: j, metrics: m, logger: logger, identity: who,
		complains: map[string]*complaint{}, own: map[string]bool{}, wake: make(chan struct{}, 1),
	}
}

func (h *hooks) Run(ctx context.Context) error {
	defer h.runner.Close()
	return h.queue.Run(ctx)
}

// plan is which hooks a crawler has, and how its commands are started. It is never changed; a process keeps the plan that
// it was started with.
type plan struct {
	code, adapter string
	hooks         configs.Hooks // the fleet's first
	spec          process.Spec  // of its commands, but for their arguments
	env           func() []string
}

// has tells whether there is something to do at a point. A nil plan has nothing.
func (p *plan) has(point string) bool { return p != nil && len(p.hooks[point]) > 0 }

func (p *plan) hook(c configs.Hook, point string, waits bool) hook.Hook {
	one := hook.Hook{Point: point, URL: c.Webhook.Reveal(), Key: c.Key().Reveal(), Timeout: c.Timeout, Retries: c.Retries, Waits: waits}
	if len(c.Command) > 0 {
		one.Command = p.spec
		one.Command.Argv, one.Command.Env = c.Argv(p.code), p.env()
	}
	return one
}

// planHooks makes the plan of a source; nil where nothing is to be run.
func (f *fleet) planHooks(s *source) *plan {
	if len(f.conf.Hooks) == 0 && len(s.adapter.Hooks) == 0 {
		return nil
	}
	return f.planOf(s, f.conf.Hooks.With(s.adapter.Hooks))
}

func (f *fleet) planOf(s *source, all configs.Hooks) *plan {
	adapter, code := s.adapter, s.code
	return &plan{
		code: code, adapter: s.row.Adapter, hooks: all, spec: s.spec.Process,
		env: func() []string { return f.environment(adapter, code) },
	}
}

// planOfNobody is for what belongs to no source that we know: what all adapters share is how its commands are started.
func (f *fleet) planOfNobody(code string, all configs.Hooks) *plan {
	shared := f.conf.Defaults
	spec := workerSpec(code, &shared, f.tempRoot, f.environment).Process
	return &plan{code: code, hooks: all, spec: spec, env: func() []string {
		env := shared.Inherit(f.environ)
		for name, value := range shared.Env {
			env = append(env, name+"="+value)
		}
		return env
	}}
}

// runOne runs one hook to its end and tells of it.
func (h *hooks) runOne(ctx context.Context, p *plan, c configs.Hook, e *hook.Event, waits bool) hook.Result {
	one := p.hook(c, e.Hook, waits)
	r := h.runner.Run(ctx, &one, e, func(c hook.Command) { h.journal.Process(h.row(e, c)) })
	h.metrics.Hook(e.Hook, r.Outcome)
	if r.Outcome != hook.OK && r.Outcome != hook.Cancelled {
		h.complain(e.Source, e.Hook, one.Target(), r)
	}
	return r
}

// wait runs the hooks of a point, one after the other, until one does not succeed.
func (h *hooks) wait(ctx context.Context, p *plan, e *hook.Event) error {
	for _, c := range p.hooks[e.Hook] {
		switch r := h.runOne(ctx, p, c, e, true); r.Outcome {
		case hook.OK:
		case hook.Cancelled:
			return r.Err()
		default:
			return fmt.Errorf("the hook %s did not allow it: %s", e.Hook, r.Reason)
		}
	}
	return nil
}

// later runs the hooks of a point beside everything else, behind what waits for the same source. False where it found no room.
func (h *hooks) later(p *plan, e *hook.Event) bool {
	if !p.has(e.Hook) {
		return true
	}
	list := p.hooks[e.Hook]
	if h.queue.Put(e.Source, func(ctx context.Context) { h.all(ctx, p, list, e) }) {
		return true
	}
	for range list {
		h.metrics.Hook(e.Hook, hook.Dropped)
	}
	h.complain(e.Source, e.Hook, "all", hook.Result{Outcome: hook.Dropped, Reason: fmt.Sprintf("%d wait already", h.queue.Len())})
	return false
}

// all runs hooks one after the other, whatever becomes of each, and tells whether none was cut off.
func (h *hooks) all(ctx context.Context, p *plan, list []configs.Hook, e *hook.Event) bool {
	for _, c := range list {
		if ctx.Err() != nil || h.runOne(ctx, p, c, e, false).Outcome == hook.Cancelled {
			return false
		}
	}
	return true
}

// final runs the final hooks of a process, after which they are not owed any more. Without room it is put off.
func (h *hooks) final(p *plan, row sql.Process, e *hook.Event) {
	if !h.queue.Put(e.Source, func(ctx context.Context) {
		if h.all(ctx, p, p.hooks[configs.HookFinal], e) {
			row.FinalOwed = false
			h.journal.Process(row)
			h.paid(row.ID)
		}
	}) {
		h.putOff(row.ID)
	}
}

// owe notes that the final hooks of a process of ours are owed. Times do not tell which are ours: clocks are set.
func (h *hooks) owe(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own[id] = true
}

// paid notes that they are not owed any more.
func (h *hooks) paid(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.own, id)
}

func (h *hooks) isOwn(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.own[id]
}

// keepPutOff is putOff for what was taken and is to be tried again with the next round.
func (h *hooks) keepPutOff(ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put = append(h.put, ids...)
}

// putOff remembers a process whose final hooks found no room: its row has all that is needed to run them later.
func (h *hooks) putOff(id string) {
	h.keepPutOff([]string{id})
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hooks) takePutOff() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := h.put
	h.put = nil
	return ids
}

// committed waits until what is known of a process is in Postgres, or half a second has passed: an outage holds up no start.
func (h *hooks) committed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rowLimit)
	defer cancel()
	if err := h.journal.Flush(ctx); err != nil && ctx.Err() == nil {
		h.logger.Debug("a row is not in Postgres yet; its final hooks are lost if this manager is killed now", "error", err)
	}
}

// complain logs what went wrong with a hook, for each hook once a minute.
func (h *hooks) complain(source, point, target string, r hook.Result) {
	h.mu.Lock()
	key := point + "\x00" + target
	c := h.complains[key]
	if c == nil {
		c = &complaint{}
		h.complains[key] = c
	}
	quiet := !c.at.IsZero() && time.Since(c.at) < complainAll
	unsaid := c.unsaid
	if quiet {
		c.unsaid++
	} else {
		c.at, c.unsaid = time.Now(), 0
	}
	h.mu.Unlock()
	if !quiet {
		h.logger.Warn("a hook went wrong", "source", source, "hook", point, "target", target, "result", r.Outcome, "reason", r.Reason, "unsaid", unsaid)
	}
}

// row is the evidence of a command.
func (h *hooks) row(e *hook.Event, c hook.Command) sql.Process {
	row := sql.Process{
		ID: c.ID, Source: e.Source, Kind: "hook", Manager: h.identity.Manager, Host: h.identity.Host, BootID: h.identity.BootID,
		Command: configs.MaskArgs(c.Argv), Dir: c.Dir, Status: sql.ProcessRunning, QueuedAt: c.Queued, By: e.Hook,
	}
	if e.Process != nil {
		row.Parent = e.Process.ID
	}
	if p := c.Process; p != nil {
		row.Pid, row.StartTime, row.Fingerprint, row.Binary, row.StartedAt = p.Pid(), p.StartTime(), p.Fingerprint(), p.Binary(), p.Started()
	}
	if c.Ended.IsZero() {
		return row
	}
	exit := c.Program.Exit
	row.Status, row.EndedAt, row.Cause, row.LastLines = sql.ProcessExited, c.Ended, c.Result.Outcome, c.Lines
	row.PeakMemory, row.CPUTime, row.Swept = c.Program.Peak, exit.CPUTime, len(c.Program.Report.Swept)
	switch {
	case c.Process == nil:
		row.LastLines = append(row.LastLines, c.Result.Reason)
	case exit.Signal != 0:
		row.Signal = signalName(exit.Signal)
	default:
		row.ExitCode = &exit.Code
	}
	return row
}
