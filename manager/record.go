package manager

import (
	"cmp"
	"fmt"
	"iter"
	"time"

	"crawlkeeper/status"
	"crawlkeeper/worker"
)

// aheadLimit is how far ahead of the clock the last due time of a cron line may be before that is a problem: a clock that is
// set back for the change of the hour, by mistake, is not.
const aheadLimit = 2 * time.Hour

// record says what the status hash has about a source.
func (f *fleet) record(s *source, into *status.Record, now moment) {
	w := s.worker.Snapshot()
	*into = status.Record{
		Pid: w.Pid, Restarting: s.asked > 0, StartedAt: w.StartedAt, NextRunAt: s.due.shown(f.offset).Add(s.plan.Spread(s.code, s.due.wall)),
		Phase: string(w.Phase), Paused: s.row.PausedUntil.After(now.wall), Enabled: s.row.Enabled, Trigger: s.trigger,
		Restarts: w.Restarts, BackoffUntil: w.BackoffUntil, LastExit: s.exit(w.LastExit),
		Manager: f.name, UpdatedAt: w.Since,
		Problem: cmp.Or(s.noCrawl, w.Unwell, s.problem(w.Trouble), f.turnProblem(s, w.Phase), s.noTicks),
	}
	if w.Pid != 0 {
		into.RSSBytes, into.CPUPercent = s.rss, s.cpu
	}
	if s.waits {
		into.Queue = 1
	}
	s.restProblem(into)
	if into.Problem == "" && s.plan.IsCron() && s.lastDue.Sub(now.wall) > aheadLimit {
		into.Problem = fmt.Sprintf("no tick before %s, the due time of the last one: if the clock was wrong then, delete its field in the hash last_due and restart the manager",
			s.lastDue.UTC().Format(time.RFC3339))
	}
	if into.Paused {
		into.PausedUntil, into.PauseReason, into.PausedBy = s.row.PausedUntil, s.row.PauseReason, s.row.PausedBy
		if s.row.PausedUntil.After(into.NextRunAt) {
			into.NextRunAt = s.row.PausedUntil
		}
	}
}

// exit converts each exit once: records are compared by pointer.
func (s *source) exit(e *worker.Exit) *status.Exit {
	if e == nil {
		return nil
	}
	if s.exitOf == e {
		return s.exitAs
	}
	out := &status.Exit{At: e.At, Cause: string(e.Cause), RanSeconds: e.Ran.Seconds()}
	switch {
	case e.Signal != 0:
		out.Signal = signalName(e.Signal)
	case e.Cause != worker.StartFailed:
		code := e.Code
		out.Code = &code
	}
	s.exitOf, s.exitAs = e, out
	return out
}

// records yields the record of every source. It is run by the fleet's goroutine.
func (f *fleet) records() iter.Seq2[string, *status.Record] {
	return func(yield func(string, *status.Record) bool) {
		now := f.clock.now()
		var r status.Record
		for code, s := range f.sources {
			if s.gone {
				continue
			}
			f.record(s, &r, now)
			if !yield(code, &r) {
				return
			}
		}
	}
}
