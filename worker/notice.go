package worker

import (
	"errors"
	"syscall"
)

// ErrDeaf answers a signal that was not sent: the crawler neither catches nor ignores it, so that it would end by it.
var ErrDeaf = errors.New("its crawler does not handle the signal and would end by it: it was not sent")

// notice is a signal for the crawler that runs, and who waits until it was sent.
type notice struct {
	sig     syscall.Signal
	waiters []func(error)
}

func (n *notice) answer(err error) {
	for _, f := range n.waiters {
		f(err)
	}
}

// Notify sends a signal to the crawler, once for all who ask for it together, as soon as it is up. It is for what crawlers
// read at their start: where one is yet to be started, or being replaced, there is nothing to send. done is called exactly
// once, with nil or why not; it must not block. Any goroutine; does not wait.
func (w *Worker) Notify(sig syscall.Signal, done func(error)) {
	n := &notice{sig: sig, waiters: []func(error){done}}
	w.mu.Lock()
	closed := w.closed
	if closed == nil {
		w.noticed = join(w.noticed, n)
	}
	w.mu.Unlock()
	if closed != nil {
		n.answer(closed)
		return
	}
	w.wake()
}

// join makes one of two notices, the second of which came later.
func join(a, b *notice) *notice {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &notice{sig: b.sig, waiters: append(a.waiters, b.waiters...)}
}

// notify sends what waits to the crawler that is up.
func (w *Worker) notify(p Process) {
	if w.notice == nil {
		return
	}
	n := w.notice
	w.notice = nil
	if w.n.Catches != nil && !w.n.Catches(p.Pid(), n.sig) {
		n.answer(ErrDeaf)
		return
	}
	n.answer(p.Signal(n.sig))
}

// needless answers what waits where there is no process: the next one, if any, is started after it. At the end of its life that is
// left to close.
func (w *Worker) needless() {
	if w.notice == nil || w.process.Load() != nil {
		return
	}
	select {
	case <-w.dying:
		return
	default:
	}
	n := w.notice
	w.notice = nil
	if w.want.Up {
		n.answer(nil)
	} else {
		n.answer(ErrUnwanted)
	}
}
