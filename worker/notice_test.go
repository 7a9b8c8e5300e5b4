package worker

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/worker/process"
)

// told collects the answers to notices.
func told(w *Worker, n int) chan error {
	c := make(chan error, 10)
	for range n {
		w.Notify(syscall.SIGHUP, func(err error) { c <- err })
	}
	return c
}

// wantTold checks that n answers have come, all of them this one.
func wantTold(t *testing.T, c chan error, n int, want error) {
	t.Helper()
	synctest.Wait()
	if len(c) != n {
		t.Errorf("%d answers, want %d", len(c), n)
	}
	for range len(c) {
		if err := <-c; err != want { //nolint:errorlint // these are never wrapped
			t.Errorf("answer %v, want %v", err, want)
		}
	}
}

func (f *fake) wantSignals(t *testing.T, pids ...int) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	var got []int
	for _, s := range f.signals {
		got = append(got, s.pid)
		if s.sig != syscall.SIGHUP {
			t.Errorf("signal %v", s.sig)
		}
	}
	equal(t, "signalled", got, pids)
}

// It is sent once for all who ask for it together, and not before the crawler is up.
func TestANoticeIsSentOnceItIsUp(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		judged := *plain
		judged.Judged = true
		w.Want(Desire{Up: true, Spec: &judged})
		wantPhase(t, w, Starting)
		c := told(w, 3)
		wantTold(t, c, 0, nil)
		f.wantSignals(t)
		w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, Phase: Running})
		wantTold(t, c, 3, nil)
		f.wantSignals(t, 100)
		wantTold(t, told(w, 1), 1, nil)
		f.wantSignals(t, 100, 100)
		wantPhase(t, w, Running)
	})
}

// One that is being stopped or started gets none: the next one reads its configuration anyway.
func TestANoticeBesideAStartOrAStop(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: 3 * time.Second}
	bubble(t, f, func(w *Worker, shutdown context.CancelFunc) {
		wantTold(t, told(w, 1), 1, ErrUnwanted) // there is none
		w.Want(up)
		wantPhase(t, w, Running)
		ask(t, w, Restart, up)
		wantPhase(t, w, Stopping)
		c := told(w, 1)
		wantTold(t, c, 0, nil)
		time.Sleep(3 * time.Second)
		wantTold(t, c, 1, nil)
		wantPhase(t, w, Running)

		f.last().end(process.Exit{Code: 1})
		wantPhase(t, w, Backoff)
		wantTold(t, told(w, 1), 1, nil)
		time.Sleep(6 * time.Second)
		wantPhase(t, w, Running)

		w.Want(Desire{})
		wantPhase(t, w, Stopping)
		c = told(w, 1)
		time.Sleep(3 * time.Second)
		wantTold(t, c, 1, ErrUnwanted)

		gate := make(chan struct{})
		f.mu.Lock()
		f.startGate = gate
		f.mu.Unlock()
		w.Want(up)
		wantPhase(t, w, Starting)
		wantTold(t, told(w, 1), 1, nil)
		close(gate)
		wantPhase(t, w, Running)

		shutdown()
		synctest.Wait()
		c = told(w, 1)
		wantTold(t, c, 0, nil)
		time.Sleep(3 * time.Second)
		wantTold(t, c, 1, ErrShutdown)
		wantTold(t, told(w, 1), 1, ErrShutdown)
		f.wantSignals(t)
	})
}

func TestACrawlerThatWouldEndByASignalDoesNotGetIt(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.n.Catches = func(pid int, sig syscall.Signal) bool { return pid != 100 || sig != syscall.SIGHUP }
		w.Want(up)
		wantPhase(t, w, Running)
		wantTold(t, told(w, 1), 1, ErrDeaf)
		f.wantSignals(t)
	})
}
