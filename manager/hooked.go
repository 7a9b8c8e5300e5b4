package manager

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/worker"
	"crawlkeeper/worker/hook"
)

// causeLost is the cause of processes whose manager was killed.
const causeLost = "manager_lost"

// hooked runs the hooks of what a worker tells of its process. row is what was just written of it.
func (o *observer) hooked(i worker.Incarnation, row sql.Process) {
	h := o.f.hooks
	switch i.Status {
	case worker.StatusQueued:
		h.later(o.plan, o.eventOf(configs.HookCreate, i))
	case worker.StatusRunning:
		o.now = &i
		h.later(o.plan, o.eventOf(configs.HookStart, i))
	case worker.StatusExited:
		outcome := outcomeOf(i.Cause, i.Pid != 0, row.Signal)
		if asItShould(i) {
			outcome = configs.HookSuccess
		}
		h.later(o.plan, o.eventOf(outcome, i))
		if o.plan.has(configs.HookFinal) && len(i.Left) == 0 { // what is left is the next manager's, with the hooks
			h.final(o.plan, row, o.eventOf(configs.HookFinal, i))
		}
		o.now = nil
	}
}

// judged runs the hooks of a change of how the crawler is. On its way from one trouble to another it is never well.
func (o *observer) judged(m worker.Move) {
	snap := o.s.worker.Snapshot()
	point := configs.HookUnhealthy
	if m.To == worker.Running {
		point = configs.HookHealthy
	}
	if o.now == nil || !o.plan.has(point) || point == configs.HookHealthy && snap.Unwell != "" {
		return
	}
	e := o.eventOf(point, *o.now)
	e.ID += ":" + uuid.NewString() // it may come again
	e.Phase, e.Why, e.At = string(m.To), snap.Unwell, m.At.UTC()
	o.f.hooks.later(o.plan, e)
}

// Before is what must have succeeded before a crawler is started. It is called while the worker's goroutine waits.
func (o *observer) Before(ctx context.Context, i worker.Incarnation) error {
	if o.plan == nil {
		return nil
	}
	if o.plan.has(configs.HookFinal) { // from here on a manager that is killed leaves a row that says so
		o.f.hooks.committed(ctx)
	}
	for _, point := range []string{configs.HookValidate, configs.HookAcquire} {
		if !o.plan.has(point) {
			continue
		}
		if err := o.f.hooks.wait(ctx, o.plan, o.eventOf(point, i)); err != nil {
			return err
		}
	}
	return nil
}

// BeforeStop is what is done before a crawler is asked to end. A hook that fails changes nothing.
func (o *observer) BeforeStop(i worker.Incarnation) func(context.Context) {
	if !o.plan.has(configs.HookBeforeStop) {
		return nil
	}
	p, e := o.plan, o.eventOf(configs.HookBeforeStop, i)
	return func(ctx context.Context) {
		if !o.f.hooks.all(ctx, p, p.hooks[e.Hook], e) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			o.f.hooks.complain(e.Source, e.Hook, "all", hook.Result{Outcome: hook.TimedOut, Reason: "half of stop_timeout is over; the crawler needs the rest"})
		}
	}
}

// finishHooks gives the last hooks what is left of the time of a shutdown: the longest stop_timeout and a second. What it cuts
// off is owed. The fleet has ended: its configuration, which a reload may have replaced, does not change any more.
func (m *Manager) finishHooks(began time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(m.fleet.conf.LongestStop()+time.Second))
	defer cancel()
	if m.Kill != nil { // the second signal
		go func() {
			select {
			case <-m.Kill:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	if m.hooks.queue.Below(ctx, 1) != nil {
		m.Logger.Warn("hooks are cut off by the end; final ones are run by the next manager", "hooks", m.hooks.queue.Len())
	}
}
