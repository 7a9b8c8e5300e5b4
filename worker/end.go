package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"crawlkeeper/worker/process"
)

// How long a drain may take after an exit, and how often what cannot be ended is tried and named again.
const (
	drainLimit = time.Second
	sweepRound = 10 * time.Second
	lastSweep  = time.Second // at a shutdown, after the stop timeout
	tellAgain  = time.Minute // what is tried again and again is said once, and then this often: thousands may hang at once
)

// reminder tells whether it is time to say something again. The zero value says so at once.
type reminder struct{ last time.Time }

func (r *reminder) due() bool {
	if !r.last.IsZero() && time.Since(r.last) < tellAgain {
		return false
	}
	r.last = time.Now()
	return true
}

// end takes a process from its end, or the wish for it, to the rest after it. An empty cause is an end that came by itself.
func (w *Worker) end(ctx context.Context, p Process, inc *Incarnation, cause Cause, by string) {
	w.move(Stopping, cause)
	if cause != "" {
		inc.By, inc.Cause = by, cause // from here on, whatever is said meanwhile
		if w.judge != nil && w.judge.End == cause {
			inc.Why = w.judge.Why
			if cause.Unwanted() && w.quick() == 0 { // what eats the memory is not looked at for long
				inc.Evidence = w.evidence(ctx, p)
			}
		}
		w.stop(ctx, p, *inc)
	}
	if !w.sweepLeader(ctx, p) {
		return // a shutdown, and it cannot be ended
	}
	exit := p.Exit()
	if cause == "" {
		cause = causeOf(exit)
	}
	w.process.Store(nil)
	w.needless()
	if exit.Full && cause == OutOfMemory {
		inc.Why = fmt.Sprintf("memory: the kernel ended it at its limit of %d MiB", w.spec.Process.Quota.Memory>>20)
	}
	w.now.Unwell = ""
	w.now.Pid, w.now.LastExit = 0, &Exit{Exit: exit, Cause: cause, Why: inc.Why}
	w.publish()
	inc.Status, inc.Cause, inc.Exit, inc.EndedAt = StatusEnded, cause, exit, exit.At
	w.n.Observer.Process(*inc)
	w.sweep(ctx, p, inc)
	w.drain(ctx, p, inc) // nothing of the tree holds the pipes any more
	inc.Status, inc.PeakMemory = StatusExited, p.Peak()
	w.disappoint(cause)
	w.settle(ctx, inc)
	w.n.Observer.Process(*inc)
}

// disappoint deals with what waits for a process that ended before it was well: the next start serves it, where one is
// wished for.
func (w *Worker) disappoint(cause Cause) {
	if w.wish == nil {
		answer(&w.served, fmt.Errorf("its crawler ended before it was well: %s", cause))
		return
	}
	w.wish, w.served = merge(w.served, w.wish), nil
}

func causeOf(e process.Exit) Cause {
	switch {
	case e.OOM:
		return OutOfMemory
	case e.Signal != 0:
		return Signalled
	case e.Code != 0:
		return Crashed
	}
	return Exited
}

// stop asks the leader to end and gives it its time, of which the hooks before it may take half.
func (w *Worker) stop(ctx context.Context, p Process, inc Incarnation) {
	began := time.Now()
	w.beforeStop(ctx, p, inc)
	if err := p.Ask(cmp.Or(w.spec.StopSignal, syscall.SIGTERM)); err != nil {
		w.logger().Warn("a crawler could not be asked to end", "pid", p.Pid(), "error", err)
	}
	limit := w.stopLimit()
	timer := time.NewTimer(limit - time.Since(began))
	defer timer.Stop()
	for {
		select {
		case <-p.Exited():
			return
		case <-timer.C:
			w.logger().Warn("a crawler did not end in time and is killed", "pid", p.Pid(), "timeout", limit)
			return
		case <-w.n.Kill:
			return
		case <-w.mail:
			w.read()
		}
	}
}

// beforeStop does what is to be done before the signal, unless the process has ended, or nobody is given time any more.
func (w *Worker) beforeStop(ctx context.Context, p Process, inc Incarnation) {
	if w.n.Hooks == nil {
		return
	}
	do := w.n.Hooks.BeforeStop(inc)
	if do == nil {
		return
	}
	select {
	case <-p.Exited():
		return
	case <-w.n.Kill:
		return
	default:
	}
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.stopLimit()/2)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); do(inner) }()
	for {
		select {
		case <-done:
			return
		case <-inner.Done(): // it is told so, and not waited for
			return
		case <-p.Exited():
			return
		case <-w.n.Kill:
			return
		case <-w.mail:
			w.read()
		}
	}
}

// stopLimit is how long the stop may take: a verdict may leave less than the adapter does.
func (w *Worker) stopLimit() time.Duration {
	if quick := w.quick(); quick > 0 {
		return min(quick, w.want.stopTimeout())
	}
	return w.want.stopTimeout()
}

// quick is what a verdict leaves to the process that runs; 0 where none is in a hurry.
func (w *Worker) quick() time.Duration {
	if w.judge.final(w.now.ProcessID) {
		return w.judge.Within
	}
	return 0
}

func (d Desire) stopTimeout() time.Duration {
	if d.Spec == nil {
		return 15 * time.Second
	}
	return d.Spec.StopTimeout
}

// sweepLeader kills a leader that still lives and waits for its end. False where a shutdown cannot wait any longer.
func (w *Worker) sweepLeader(ctx context.Context, p Process) bool {
	select {
	case <-p.Exited():
		return true
	default:
	}
	var unkilled, stays reminder
	for {
		if err := p.Kill(); err != nil && unkilled.due() {
			w.logger().Error("a crawler cannot be killed", "pid", p.Pid(), "error", err)
		}
		timer := time.NewTimer(lastSweep)
		select {
		case <-p.Exited():
			timer.Stop()
			return true
		case <-timer.C:
			if stays.due() {
				w.logger().Error("a crawler does not end although it was killed; it holds up its source and is tried again", "pid", p.Pid())
			}
			if ctx.Err() != nil {
				return false
			}
		}
		w.peek()
	}
}

// peek reads the mailbox without waiting.
func (w *Worker) peek() {
	select {
	case <-w.mail:
		w.read()
	default:
	}
}

// evidenceLines is how many of the last lines of output are kept as evidence, where nobody asked for the end.
const evidenceLines = 20

func (w *Worker) drain(ctx context.Context, p Process, inc *Incarnation) {
	d, ok := p.(drained)
	if !ok {
		return
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	d.stream.Drain(limit)
	inc.Reason = d.stream.ClosedReason()
	if !inc.Cause.Unwanted() {
		return
	}
	for _, line := range d.stream.Last(evidenceLines) {
		inc.LastLines = append(inc.LastLines, string(line.Text))
	}
}

// sweep ends what the crawler started. What cannot be ended keeps the source stopping; at a shutdown it gets a second.
func (w *Worker) sweep(ctx context.Context, p Process, inc *Incarnation) {
	slow := false
	var stays reminder
	for {
		limit := sweepRound
		if ctx.Err() != nil {
			limit = lastSweep
		}
		report, err := w.sweepOnce(ctx, p, limit)
		inc.Swept, inc.Left, inc.Kept = report.Swept, report.Left, report.Kept
		if err == nil {
			return
		}
		switch {
		case !errors.Is(err, process.ErrGivingBack) && stays.due():
			w.logger().Error("something that a crawler started cannot be ended; it holds up its source and is tried again", "left", report.Left, "error", err)
		case errors.Is(err, process.ErrGivingBack) && !slow:
			slow = true
			w.logger().Warn("what was taken for a crawler that ended is still being given back (a slow disk?); its source waits for it")
		}
		if ctx.Err() != nil {
			return
		}
		w.pauseRound(ctx)
	}
}

// pauseRound pauses between two rounds, so that what fails at once does not fail all the time, and reads the mailbox.
func (w *Worker) pauseRound(ctx context.Context) {
	timer := time.NewTimer(lastSweep)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-w.mail:
			w.read()
		}
	}
}

func (w *Worker) sweepOnce(ctx context.Context, p Process, limit time.Duration) (process.Report, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if limit > lastSweep { // a shutdown that comes meanwhile shortens it
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastSweep, cancel) })
		defer stop()
	}
	return p.Sweep(bounded)
}

// settle goes to the next phase once nothing is left.
func (w *Worker) settle(ctx context.Context, inc *Incarnation) {
	w.peek()
	switch {
	case ctx.Err() != nil || !w.want.Up:
		w.move(Stopped, inc.Cause)
		w.answerAtRest()
	case inc.Cause.Unwanted() && !w.anew(w.wish):
		w.retreat(inc)
	default:
		if !inc.Cause.Unwanted() {
			w.forgive()
		}
		w.move(Starting, inc.Cause)
	}
}

// anew tells whether there is a reason to start again at once: a wish, or a change, as what was changed may be what was
// broken.
func (w *Worker) anew(asked *wish) bool { return asked != nil || !w.want.Spec.same(w.spec) }
