package worker

import (
	"cmp"
	"context"
	"time"
)

// Live begins the life of the worker, and does not wait. When the context ends the worker stops its crawler. over is called, by
// the worker's goroutine, once nothing of it is left, or the stop timeout and a second have passed. To be called once.
func (w *Worker) Live(ctx context.Context, over func()) {
	w.dying = ctx.Done()
	unwatch := context.AfterFunc(ctx, w.wake)
	w.goOn = func() {
		if w.live(ctx) {
			unwatch()
			w.close(context.Cause(ctx))
			over()
		}
	}
	go w.goOn()
}

// live goes on until there is nothing to do before something happens, or until its life is over.
func (w *Worker) live(ctx context.Context) (over bool) {
	for w.inc != nil || ctx.Err() == nil {
		if w.runOnce(ctx) {
			return false
		}
	}
	return true
}

// runOnce goes one step: from a rest (stopped, backoff) to a process, and through that to the next rest. It tells whether there is
// nothing to do before something happens.
func (w *Worker) runOnce(ctx context.Context) (asleep bool) {
	switch {
	case w.inc != nil:
		return w.attend(ctx)
	case w.now.Phase == Stopped:
		w.rest(ctx)
	case w.now.Phase == Backoff, w.now.Phase == Cooling:
		w.backOff(ctx)
	default: // pending, starting, or stopping with nothing left
		w.launch(ctx)
	}
	return false
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

// attend watches the process that runs, and sees to it that nothing is left after its end.
func (w *Worker) attend(ctx context.Context) (asleep bool) {
	p, inc := *w.process.Load(), w.inc
	cause, by, asleep := w.watch(ctx, p)
	if !asleep {
		w.inc = nil
		w.end(ctx, p, inc, cause, by)
	}
	return asleep
}

// watch waits until the process ends by itself, or has to. An empty cause is an end that nobody asked for. Where nothing is to be
// waited for but what wakes the worker, it does not wait.
func (w *Worker) watch(ctx context.Context, p Process) (cause Cause, by string, asleep bool) {
	var stable <-chan time.Time
	for {
		switch {
		case !w.want.Up:
			return w.because(StoppedBy), w.want.By, false
		case w.restartWished(), !w.want.Spec.same(w.spec):
			return w.because(Restarted), w.want.By, false
		case w.judge != nil && w.judge.End != "":
			if w.judge.unwell() && w.now.Phase.Up() { // it was found so, whatever comes of it
				w.heed()
			}
			return w.judge.End, cmp.Or(w.judge.By, "manager"), false
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
		if stable == nil && w.sleep(ctx, p) {
			return "", "", true
		}
		select {
		case <-p.Exited():
			return "", "", false
		case <-stable:
			w.calm()
			stable = nil
		case <-ctx.Done():
			return Shutdown, "manager", false
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
