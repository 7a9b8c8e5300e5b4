package worker

import (
	"context"
	"errors"
	"os"
	"time"

	"crawlkeeper/worker/output"
	"crawlkeeper/worker/process"
)

// launch brings the worker to running, or to rest where the start failed or is not wanted any more.
func (w *Worker) launch(ctx context.Context) {
	if w.now.Phase != Pending {
		w.move(Starting, "")
	}
	passed := w.during(ctx, w.gate)
	w.peek() // what was asked for before the gate opened
	if !passed || !w.want.Up {
		w.abandon("")
		return
	}
	w.move(Starting, "")
	// What was wished until now is fulfilled by this start; what comes from now on needs another.
	spec, asked := w.want.Spec, w.wish
	if !spec.same(w.spec) {
		w.forgive()
	}
	w.wish, w.spec = nil, spec
	inc := w.queue(spec, asked)
	var p Process
	var err error
	wanted := w.during(ctx, func(ctx context.Context) error {
		p, err = w.start(ctx, spec, inc)
		return err
	})
	later := w.wish
	w.wish = asked
	if p == nil {
		w.failed(ctx, inc, err, later)
		w.wish = merge(w.wish, later)
		return
	}
	w.started(p, inc)
	if wanted {
		w.served, w.wish = asked, nil
		w.heed()
	}
	w.wish = merge(w.wish, later)
}

// during calls f in a goroutine of its own, so that the mailbox is read meanwhile. Once no crawler is wanted any more
// f's context ends. It returns, after f did, whether f succeeded and a crawler is still wanted.
func (w *Worker) during(ctx context.Context, f func(context.Context) error) bool {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(inner) }()
	for {
		select {
		case err := <-done:
			return err == nil && w.want.Up && ctx.Err() == nil
		case <-w.mail:
			w.read()
			if !w.want.Up {
				cancel()
			}
		}
	}
}

func (w *Worker) gate(ctx context.Context) error {
	if w.n.Gate == nil {
		return nil
	}
	return w.n.Gate(ctx)
}

// abandon goes to stopped without a process.
func (w *Worker) abandon(cause Cause) {
	if w.now.Phase == Starting {
		w.move(Stopping, cause)
	}
	w.move(Stopped, cause)
}

func (w *Worker) queue(spec *Spec, asked *wish) *Incarnation {
	by := "manager"
	if asked != nil {
		by = w.want.By
	}
	inc := &Incarnation{
		ID: process.NewID(), Source: w.code, Status: StatusQueued, Argv: spec.Process.Argv, Dir: spec.Process.Dir,
		QueuedAt: time.Now(), By: by,
	}
	w.n.Observer.Process(*inc)
	return inc
}

func (w *Worker) start(ctx context.Context, spec *Spec, inc *Incarnation) (Process, error) {
	if w.n.Hooks != nil {
		if err := w.n.Hooks.Before(ctx, *inc); err != nil {
			return nil, err
		}
	}
	if w.n.Clean != nil {
		w.n.Clean(ctx)
	}
	ps := spec.Process
	ps.ID = inc.ID
	if spec.Env != nil {
		ps.Env = spec.Env()
	}
	if w.n.Open == nil {
		return w.n.Start(ctx, ps)
	}
	out := &opening{open: w.n.Open}
	ps.Streams = out
	p, err := w.n.Start(ctx, ps)
	switch {
	case out.stream == nil:
		return p, err
	case err != nil:
		out.stream.Drain(ctx)
		return nil, err
	}
	return drained{p, out.stream}, nil
}

// opening opens the output of a process once it is about to be forked.
type opening struct {
	open   func() (*output.Stream, error)
	stream *output.Stream
}

func (o *opening) Open() (stdout, stderr *os.File, err error) {
	if o.stream, err = o.open(); err != nil {
		return nil, nil, err
	}
	return o.stream.Stdout, o.stream.Stderr, nil
}

func (o *opening) Forked() { o.stream.Started() }

// drained is a process whose output is taken to its end.
type drained struct {
	Process
	stream *output.Stream
}

func (w *Worker) started(p Process, inc *Incarnation) {
	w.process.Store(&p)
	w.inc = inc
	p.OnExit(w.wake)
	w.now.Pid, w.now.ProcessID, w.now.StartedAt, w.now.UpAt = p.Pid(), inc.ID, time.Now(), time.Time{}
	w.now.Restarts = w.starts
	w.starts++
	w.judge, w.now.Unwell = nil, ""
	w.publish()
	inc.Status, inc.Pid, inc.StartTime, inc.Fingerprint = StatusRunning, p.Pid(), p.StartTime(), p.Fingerprint()
	inc.Binary, inc.StartedAt = p.Binary(), w.now.StartedAt
	w.n.Observer.Process(*inc)
}

// failed goes to the backoff after a start that failed, or to rest where no crawler is wanted any more or the policy has
// no more starts. later is what was wished meanwhile.
func (w *Worker) failed(ctx context.Context, inc *Incarnation, err error, later *wish) {
	inc.Status, inc.EndedAt, inc.Exit.Code = StatusExited, time.Now(), -1
	inc.Cause, inc.Error = StartFailed, err.Error()
	cutOff := isCancelled(err)
	switch {
	case !cutOff:
		w.now.LastExit = &Exit{Exit: process.Exit{Code: -1, At: inc.EndedAt}, Cause: StartFailed, Error: inc.Error}
	case ctx.Err() != nil:
		inc.Cause, inc.Error = Shutdown, ""
	default:
		inc.Cause, inc.Error = w.because(StoppedBy), ""
	}
	switch {
	case ctx.Err() != nil || !w.want.Up:
		w.n.Observer.Process(*inc)
		w.abandon("")
	case cutOff: // and wanted again by now: it stays starting
		w.n.Observer.Process(*inc)
	default:
		if w.anew(later) {
			w.publish() // it stays starting
		} else {
			w.retreat(inc)
		}
		w.n.Observer.Process(*inc)
		w.answer(err)
	}
}

func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, process.ErrStopped)
}

// retreat follows an end that nobody asked for: to backoff or cooling, or to stopped where the policy says so.
func (w *Worker) retreat(inc *Incarnation) {
	spec := w.want.Spec
	w.streak.add(inc.Cause, w.wasUp(inc), spec.Delay)
	delay := w.jitter(spec.Delay, w.streak.pause)
	next := time.Now().Add(delay)
	inc.GivenUp, inc.Exhausted = spec.Restart.refuses(w.streak, next)
	w.now.Trouble = w.streak.trouble(w.now.LastExit, inc)
	if inc.GivenUp != "" {
		w.refused = spec
		w.abandon(inc.Cause)
		return
	}
	w.streak.allow(spec.Restart, next)
	inc.Delay, w.now.BackoffUntil = delay, next
	if w.streak.pause >= spec.Delay.Max {
		w.move(Cooling, inc.Cause)
	} else {
		w.move(Backoff, inc.Cause)
	}
}
