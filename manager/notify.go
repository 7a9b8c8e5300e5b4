package manager

import (
	"errors"

	"golang.org/x/sys/unix"

	"crawlkeeper/worker"
)

// notify has the crawler of a source read its own configuration again, by the reload_signal of its adapter.
func (f *fleet) notify(s *source, done func(error)) {
	switch {
	case s.adapter.ReloadSignal == "":
		done(errors.New("its adapter has no reload_signal"))
		return
	case s.gone || !s.up || s.asked > 0:
		done(errors.New("its crawler does not run"))
		return
	}
	s.worker.Notify(unix.SignalNum(s.adapter.ReloadSignal), func(err error) { f.inbox.put(func() { done(err) }) })
}

// notifyAll does that after a reload, for those that have a reload_signal. One line says what came of all.
func (f *fleet) notifyAll(sources []*source) {
	left, sent, failed := 0, 0, 0
	var last error
	done := func(err error) {
		left--
		switch {
		case err == nil:
			sent++
		case !errors.Is(err, worker.ErrUnwanted):
			failed, last = failed+1, err
		}
		switch {
		case left > 0:
		case failed > 0:
			f.logger.Warn("not all crawlers could be told of the reload", "told", sent, "failed", failed, "error", last)
		default:
			f.logger.Info("crawlers were told of the reload", "told", sent)
		}
	}
	for _, s := range sources {
		if s.adapter.ReloadSignal != "" {
			left++
			s.worker.Notify(unix.SignalNum(s.adapter.ReloadSignal), func(err error) { f.inbox.put(func() { done(err) }) })
		}
	}
}
