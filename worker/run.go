package worker

import (
	"cmp"
	"context"
	"time"
)

// Run is the life of the worker. When the context ends it stops its crawler and returns once nothing of it is left, or
// the stop timeout and a second have passed.
func (w *Worker) Run(ctx context.Context) error {
	defer func() { w.close(context.Cause(ctx)) }()
	for ctx.Err() == nil {
		w.runOnce(ctx)
	}
	return nil
}

// runOnce goes from rest (stopped, backoff) through one process to the next rest.
func (w *Worker) runOnce(ctx context.Context) {
	switch w.now.Phase {
	case Stopped:
		w.rest(ctx)
	case Backoff, Cooling:
		w.backOff(ctx)
	default: // pending, starting, or stopping with nothing left
		w.live(ctx)
	}
}

// rest waits until a crawler is wanted and the policy does not stand against it.
func (w *Worker) rest(ctx context.Context) {
	for !w.mayStart() && ctx.Err() == nil {
		w.answerAtRest()
		select {
		case <-w.mail:
			w.read()
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		w.move(Pending, "")
	}
}

// mayStart tells whether a worker at rest has to start a crawler. Where one was given up, a wish, a change of how it is
// run, or a time in which none is wanted is a new beginning.
func (w *Worker) mayStart() bool {
	if !w.want.Up || w.refused != nil && (w.anew(w.wish) || w.want.Spec.Restart != w.refused.Restart) {
		w.forgive()
	}
	return w.want.Up && w.refused == nil
}

// backOff waits until the delay is over, or something is wished or changed.
func (w *Worker) backOff(ctx context.Context) {
	timer := time.NewTimer(time.Until(w.now.BackoffUntil))
	defer timer.Stop()
	next := Starting
wait:
	for w.want.Up && !w.anew(w.wish) {
		select {
		case <-timer.C:
			break wait
		case <-ctx.Done():
			next = Stopped
			break wait
		case <-w.mail:
			w.read()
		}
	}
	if !w.want.Up {
		next = Stopped
	}
	w.now.BackoffUntil = time.Time{}
	w.move(next, "")
}

// live starts a process, waits for its end and sees to it that nothing is left.
func (w *Worker) live(ctx context.Context) {
	p, inc := w.launch(ctx)
	if p == nil {
		return
	}
	cause, by := w.watch(ctx, p)
	w.end(ctx, p, inc, cause, by)
}

// watch waits until the process ends by itself, or has to. An empty cause is an end that nobody asked for.
func (w *Worker) watch(ctx context.Context, p Process) (Cause, string) {
	var stable <-chan time.Time
	for {
		switch {
		case !w.want.Up:
			return w.because(StoppedBy), w.want.By
		case w.restartWished(), !w.want.Spec.same(w.spec):
			return w.because(Restarted), w.want.By
		case w.judge != nil && w.judge.End != "":
			if w.judge.unwell() && w.now.Phase.Up() { // it was found so, whatever comes of it
				w.heed()
			}
			return w.judge.End, cmp.Or(w.judge.By, "manager")
		}
		w.heed()
		if w.now.Phase.Up() {
			answer(&w.served, nil)
			w.answer(nil) // a start: it runs already
			w.notify(p)
			if w.now.Trouble != nil && stable == nil {
				stable = time.After(time.Until(w.now.UpAt.Add(w.spec.Delay.Stable)))
			}
		}
		select {
		case <-p.Exited():
			return "", ""
		case <-stable:
			w.calm()
		case <-ctx.Done():
			return Shutdown, "manager"
		case <-w.mail:
			w.read()
		}
	}
}

// heed goes where the last verdict says.
func (w *Worker) heed() {
	switch {
	case w.judge == nil && w.spec.Judged && w.want.Spec.Judged:
		return // it is starting until somebody says that it is well, unless nobody watches any more
	case w.judge == nil:
		w.move(Running, "")
		return
	}
	if w.now.Unwell != w.judge.Why {
		w.now.Unwell = w.judge.Why
		w.publish()
	}
	if w.now.Phase != w.judge.Phase {
		w.move(Running, "") // from the start, and from one trouble to another, by way of this
		w.move(w.judge.Phase, "")
	}
}

func (w *Worker) because(otherwise Cause) Cause {
	if w.want.Cause != "" {
		return w.want.Cause
	}
	return otherwise
}

// answerAtRest answers what was wished, where no crawler is wanted and none is there.
func (w *Worker) answerAtRest() {
	if w.wish == nil {
		return
	}
	if w.wish.kind == Stop {
		w.answer(nil)
		return
	}
	w.answer(ErrUnwanted)
}
