package manager

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
	"crawlkeeper/worker/limits"
	"crawlkeeper/worker/process"
)

// identity says who started the processes that are written down.
type identity struct {
	Manager, Host, BootID string
}

// secondMark is when the runs of a crawler that ended are marked again: one may have been opened in its last moment.
const secondMark = 5 * time.Second

// A run may become visible late, or a mark may have been bounded: then the next end must not take it. So each mark is said
// together with the ends that came shortly before it.
const (
	recentEnds = time.Minute
	mostRecent = 8
)

// observer writes down what a worker does, and runs the hooks. Its methods are called by the worker's goroutine, Before by one
// for which that waits.
type observer struct {
	f    *fleet
	s    *source
	plan *plan               // of the last process; nil: it has no hooks
	now  *worker.Incarnation // the one that runs, where it has hooks
	ends []end               // the recent ones, the oldest first
}

// end is what marks the runs of a crawler that ended.
type end struct {
	mark sql.Mark  // without bound
	at   time.Time // monotonic
}

// Moved publishes a change of phase.
func (o *observer) Moved(m worker.Move) {
	o.f.publish(status.Event{Source: m.Source, From: string(m.From), To: string(m.To), Cause: string(m.Cause), At: m.At})
	f, s := o.f, o.s
	f.bustle.moved()
	o.tellHealth(m)
	if m.To == worker.Stopping {
		ended := s.worker.Snapshot().ProcessID
		f.inbox.put(func() { f.unwatch(s, ended) })
	}
	if o.plan != nil && m.From.Up() && m.To.Up() {
		o.judged(m)
	}
	if f.watched.Load() {
		snap := s.worker.Snapshot()
		f.inbox.put(func() { f.alertOn(s, m, snap) })
	}
	switch {
	case m.To == worker.Running && !m.From.Up():
		at := m.At
		f.inbox.put(func() { f.started(s, f.clock.moment(at)) })
	case m.From.Up() && !m.To.Up():
		f.inbox.put(func() { f.ended(s) })
	case m.From == worker.Pending && m.To == worker.Stopped: // it was not started at all
		f.inbox.put(func() { f.forget(s) })
	case m.To == worker.Stopped, m.To == worker.Backoff, m.To == worker.Cooling:
		f.inbox.put(func() { f.atRest(s) })
	}
}

// Process writes the evidence.
func (o *observer) Process(i worker.Incarnation) {
	f := o.f
	if i.Status == worker.StatusQueued {
		o.plan = o.s.hooked.Load()
	}
	row := processRow(i, f.identity)
	row.FinalOwed = o.plan.has(configs.HookFinal)
	if row.FinalOwed && i.Status == worker.StatusQueued {
		f.hooks.owe(i.ID)
	}
	f.journal.Process(row)
	if o.plan != nil {
		defer o.hooked(i, row)
	}
	switch i.Status {
	case worker.StatusRunning:
		f.metrics.Started(i.Source)
		if last := o.s.worker.Snapshot(); last.Restarts > 0 && last.LastExit != nil {
			f.metrics.Restarted(string(last.LastExit.Cause))
		}
		o.say(slog.LevelInfo, fmt.Sprintf("crawler started pid=%d", i.Pid), "pid", i.Pid, "by", i.By)
		f.inbox.put(func() { f.watch(o.s) })
	case worker.StatusEnded:
		o.mark(i)
	case worker.StatusExited:
		f.metrics.Exited(i.Source, string(i.Cause))
		if overMemory(i.Cause, i.Exit) {
			f.metrics.LimitReached(limits.Memory)
		}
		f.metrics.Swept(i.Source, len(i.Swept))
		f.tellKept(o.f.logger.With("source", i.Source, "process", i.ID), i.Kept)
		o.tellEnd(i)
	}
}

// overMemory tells that the kernel ended a tree at its adapter's limit.
func overMemory(cause worker.Cause, e process.Exit) bool {
	return cause == worker.OutOfMemory && e.Full
}

// tellHealth logs one line when a crawler is found not to be well, and one when it is well again.
func (o observer) tellHealth(m worker.Move) {
	unwell := func(p worker.Phase) bool { return p == worker.Unhealthy || p == worker.Stalled }
	switch why := o.s.worker.Snapshot().Unwell; {
	case unwell(m.To):
		o.say(slog.LevelWarn, fmt.Sprintf("crawler is %s: %s", m.To, why), "phase", m.To)
	case unwell(m.From) && m.To == worker.Running && why == "":
		o.say(slog.LevelInfo, "crawler is well again", "phase", m.To)
	}
}

// mark marks the runs that the crawler left open: now, and again a little later. Each run gets the first end after its start.
func (o *observer) mark(i worker.Incarnation) {
	now := time.Now()
	o.ends = slices.DeleteFunc(o.ends, func(e end) bool { return now.Sub(e.at) > recentEnds })
	o.ends = append(o.ends[max(0, len(o.ends)+1-mostRecent):], end{sql.Mark{
		Source: i.Source, Ended: i.EndedAt, FinishedAt: i.EndedAt,
		Error: fmt.Sprintf("%s %s)", interruption(o.f.interruptedText, i.Cause), i.Exit),
	}, now})
	ends := slices.Clone(o.ends)
	o.f.markAll(ends)
	time.AfterFunc(secondMark, func() { o.f.markAll(ends) }) // by then it may be known that the key was ours all the time
}

func (f *fleet) markAll(ends []end) {
	for _, e := range ends {
		m := e.mark
		m.Ended = f.bound(m.Ended)
		f.journal.Mark(m)
	}
}

func (o *observer) tellEnd(i worker.Incarnation) {
	level := slog.LevelInfo
	var text strings.Builder
	switch {
	case i.Pid == 0 && !i.Cause.Unwanted():
		fmt.Fprintf(&text, "start given up: %s", i.Cause)
	case i.Cause == worker.StartFailed:
		level = slog.LevelError
		fmt.Fprintf(&text, "crawler could not be started: %s", i.Error)
	case i.Why != "" && i.Cause.Unwanted():
		level = slog.LevelError
		fmt.Fprintf(&text, "crawler had to be ended: %s (%s) after %s: %s", i.Cause, i.Exit, round(i.Exit.Ran), i.Why)
	case asItShould(i):
		fmt.Fprintf(&text, "crawler ended by itself: %s (%s) after %s", i.Cause, i.Exit, round(i.Exit.Ran))
	case i.Cause.Unwanted():
		level = slog.LevelError
		fmt.Fprintf(&text, "crawler ended by itself: %s (%s) after %s", i.Cause, i.Exit, round(i.Exit.Ran))
	default:
		fmt.Fprintf(&text, "crawler ended: %s (%s), asked for by %s", i.Cause, i.Exit, i.By)
		if i.Why != "" {
			fmt.Fprintf(&text, ": %s", i.Why)
		}
	}
	if i.Delay > 0 {
		fmt.Fprintf(&text, ", next start in %s", round(i.Delay))
	}
	if i.GivenUp != "" {
		fmt.Fprintf(&text, ", %s%s", i.GivenUp, startsAgain(i.Source))
	}
	if i.Reason != "" {
		fmt.Fprintf(&text, "; spider closed (%s)", i.Reason)
	}
	if len(i.Swept) > 0 {
		fmt.Fprintf(&text, "; it left %s", endedWithIt(len(i.Swept)))
	}
	args := []any{"cause", i.Cause, "pid", i.Pid}
	if n := len(i.LastLines); n > 0 {
		args = append(args, "last_line", i.LastLines[n-1])
	}
	o.say(level, text.String(), args...)
}

// endedWithIt says how many processes a crawler left.
func endedWithIt(n int) string {
	if n == 1 {
		return "1 process, which was ended"
	}
	return fmt.Sprintf("%d processes, which were ended", n)
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// say logs a line and writes it to crawl_logs.
func (o *observer) say(level slog.Level, text string, args ...any) {
	o.f.logger.With("source", o.s.code).Log(o.f.workCtx, level, text, args...)
	o.f.log(o.s.code, levelWord(level), text)
}

func levelWord(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return levelError
	case l >= slog.LevelWarn:
		return levelWarning
	}
	return levelInfo
}

// log writes a row of crawl_logs. Any goroutine.
func (f *fleet) log(code, level, text string) {
	f.journal.Log(sql.LogLine{Source: code, Level: level, Message: text, At: time.Now()})
}

func processRow(i worker.Incarnation, who identity) sql.Process {
	row := sql.Process{
		ID: i.ID, Source: i.Source, Kind: "crawler", Manager: who.Manager, Host: who.Host, BootID: who.BootID,
		Pid: i.Pid, StartTime: i.StartTime, Fingerprint: i.Fingerprint, Command: configs.MaskArgs(i.Argv), Binary: i.Binary, Dir: i.Dir,
		Status: i.Status, QueuedAt: i.QueuedAt, StartedAt: i.StartedAt, EndedAt: i.EndedAt,
		Cause: string(i.Cause), By: i.By, LastLines: slices.Clone(i.LastLines), PeakMemory: i.PeakMemory, CPUTime: i.Exit.CPUTime, Swept: len(i.Swept),
		Evidence: slices.Clone(i.Evidence),
	}
	if i.Status == worker.StatusEnded {
		row.Status = sql.ProcessRunning // its tree is not gone yet
		row.EndedAt = time.Time{}
	}
	if i.Error != "" {
		row.LastLines = append(row.LastLines, i.Error)
	}
	if i.Status == worker.StatusExited {
		row.LastLines = append(row.LastLines, keptLines(i.Kept)...)
	}
	if i.Why != "" {
		row.LastLines = append(row.LastLines, i.Why)
	}
	if i.Reason != "" && !slices.ContainsFunc(row.LastLines, func(l string) bool { return strings.Contains(l, "Spider closed") }) {
		row.LastLines = append(row.LastLines, "Spider closed ("+i.Reason+")")
	}
	if i.Status == worker.StatusExited && i.Pid != 0 {
		if i.Exit.Signal != 0 {
			row.Signal = signalName(i.Exit.Signal)
		} else {
			code := i.Exit.Code
			row.ExitCode = &code
		}
	}
	return row
}

func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// The values of crawl_logs.level.
const (
	levelInfo    = "INFO"
	levelWarning = "WARNING"
	levelError   = "ERROR"
)
