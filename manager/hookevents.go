package manager

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/worker"
	"crawlkeeper/worker/hook"
	"crawlkeeper/worker/process"
)

// outcomeOf says which one of success, failure and cancel the end of a process is: nobody wanted it; or it was asked for
// and the crawler ended in its time; or it never ran, or had to be killed.
func outcomeOf(cause worker.Cause, ran bool, signal string) string {
	switch {
	case cause.Unwanted():
		return configs.HookFailure
	case !ran, signal == signalName(syscall.SIGKILL):
		return configs.HookCancel
	}
	return configs.HookSuccess
}

// asItShould tells that a crawler ended by itself with status 0 where its restart policy expects that.
func asItShould(i worker.Incarnation) bool {
	return i.GivenUp != "" && i.Cause == worker.Exited && !i.Exhausted
}

// event of a process. Its ID is the same wherever and whenever it is made again.
func (h *hooks) event(p *plan, point string, row sql.Process) *hook.Event {
	e := &hook.Event{
		Hook: point, ID: point + ":" + row.ID, At: time.Now().UTC(), Source: row.Source, Adapter: p.adapter,
		Manager: h.identity.Manager, Host: h.identity.Host, Cause: row.Cause, By: row.By, LastLines: row.LastLines,
		Process: &hook.Process{
			ID: row.ID, Pid: row.Pid, Command: row.Command, QueuedAt: row.QueuedAt.UTC(), StartedAt: instant(row.StartedAt),
			EndedAt: instant(row.EndedAt), Peak: row.PeakMemory,
		},
	}
	if row.Status != sql.ProcessExited || row.Cause == causeLost {
		return e
	}
	e.Outcome = outcomeOf(worker.Cause(row.Cause), row.Pid != 0, row.Signal)
	if row.Pid != 0 {
		e.Exit = &hook.Exit{Code: row.ExitCode, Signal: row.Signal, Ran: max(0, row.EndedAt.Sub(row.StartedAt)).Seconds()}
	}
	return e
}

// instant is a time that may be missing.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// eventOf is the event of a process of our own, of which more is known than its row has.
func (o *observer) eventOf(point string, i worker.Incarnation) *hook.Event {
	e := o.f.hooks.event(o.plan, point, processRow(i, o.f.identity))
	e.LastLines, e.Why, e.Delay = i.LastLines, i.Why, i.Delay.Seconds()
	if asItShould(i) && e.Outcome != "" {
		e.Outcome = configs.HookSuccess
	}
	if i.GivenUp != "" {
		e.Evidence = append(e.Evidence, i.GivenUp)
	}
	if i.Error != "" {
		e.Why = i.Error
	}
	if i.Reason != "" {
		e.Evidence = append(e.Evidence, "spider closed ("+i.Reason+")")
	}
	if len(i.Swept) > 0 {
		e.Evidence = append(e.Evidence, fmt.Sprintf("it left %s: %s", endedWithIt(len(i.Swept)), survivors(i.Swept)))
	}
	e.Evidence = append(e.Evidence, keptLines(i.Kept)...)
	e.Evidence = append(e.Evidence, i.Evidence...)
	return e
}

func survivors(list []process.Survivor) string {
	const most = 20
	var names []string
	for _, s := range list[:min(len(list), most)] {
		names = append(names, fmt.Sprintf("%s (%d)", s.Name, s.Pid))
	}
	return strings.Join(names, ", ")
}
