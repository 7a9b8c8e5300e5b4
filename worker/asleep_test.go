package worker

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/worker/process"
)

// sleeps tells whether a worker has no goroutine.
func sleeps(w *Worker) bool {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asleep
}

func TestWhileACrawlerRunsItsWorkerSleeps(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, shutdown context.CancelFunc) {
		if sleeps(w) {
			t.Error("it sleeps although there is nothing that would wake it")
		}
		w.Want(up)
		wantPhase(t, w, Running)
		for name, happens := range map[string]func(){
			"nothing":   func() {},
			"a desire":  func() { w.Want(up) },
			"a verdict": func() { w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, Phase: Unhealthy, Why: "x"}) },
			"a notice":  func() { w.Notify(syscall.SIGHUP, func(error) {}) },
			"a restart": func() { w.Wish(Restart, up, func(error) {}); time.Sleep(2 * time.Second) },
			"an exit":   func() { f.last().end(process.Exit{}); time.Sleep(6 * time.Second) },
		} {
			if happens(); !sleeps(w) {
				t.Errorf("after %s it does not sleep", name)
			}
		}
		for range 2 {
			f.last().end(process.Exit{Code: 1})
			time.Sleep(30 * time.Second)
			wantPhase(t, w, Running)
		}
		if sleeps(w) {
			t.Error("it sleeps before its run is stable")
		}
		time.Sleep(plain.Delay.Stable)
		if w.Snapshot().Trouble != nil || !sleeps(w) {
			t.Errorf("after a stable run there is still trouble (%v), or it does not sleep", w.Snapshot().Trouble)
		}
		shutdown()
		wantPhase(t, w, Stopping)
	})
}

// Whatever comes at the moment at which the worker's goroutine ends is seen. Run often, with real goroutines.
func TestNothingIsMissedByAWorkerThatFallsAsleep(t *testing.T) {
	t.Parallel()
	for range 2000 {
		f := &fake{t: t}
		w := New("src", Needs{Start: f.start, Observer: f, Logger: discard})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		w.Live(ctx, func() { close(over) })
		started := make(chan error, 1)
		w.Wish(Start, up, func(err error) { started <- err }) // answered just before it sleeps
		<-started
		again := make(chan error, 1)
		w.Wish(Restart, up, func(err error) { again <- err })
		<-again
		noticed := make(chan error, 1)
		w.Notify(syscall.SIGHUP, func(err error) { noticed <- err })
		<-noticed
		go f.last().end(process.Exit{})
		go cancel()
		<-over
	}
}
