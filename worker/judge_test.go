package worker

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/worker/process"
)

var judged = func() Desire {
	spec := *plain
	spec.Judged = true
	return Desire{Up: true, Spec: &spec, By: "test"}
}()

// judge says how the process that runs now is.
func judge(w *Worker, p Phase, end Cause, why string) {
	w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, Phase: p, End: end, Why: why})
	synctest.Wait()
}

func TestAWatchedCrawlerIsStartingUntilItIsWell(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		got := ask(t, w, Start, judged)
		time.Sleep(time.Hour)
		wantPhase(t, w, Starting)
		if _, ok := got(); ok || w.Snapshot().Pid == 0 {
			t.Error("the start was answered before the crawler was well, or there is none")
		}
		judge(w, Running, "", "")
		wantAnswer(t, got, nil)
		judge(w, Unhealthy, "", "no answer")
		wantPhase(t, w, Unhealthy)
		if why := w.Snapshot().Unwell; why != "no answer" {
			t.Errorf("unwell: %q", why)
		}
		judge(w, Stalled, "", "no tick taken")
		judge(w, Running, "", "")
		wantPhase(t, w, Running)
		if why := w.Snapshot().Unwell; why != "" {
			t.Errorf("well, and yet: %q", why)
		}
	})
	equal(t, "phases", f.phases(), []Phase{
		Pending, Starting, Running, Unhealthy, Running, Stalled, Running, Stopping, Stopped,
	})
}

func TestOneThatNobodyWatchesAnyMoreIsRunning(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		got := ask(t, w, Start, judged)
		wantPhase(t, w, Starting)
		w.Want(up) // the same key
		wantPhase(t, w, Running)
		wantAnswer(t, got, nil)
	})
	equal(t, "phases", f.phases(), []Phase{Pending, Starting, Running, Stopping, Stopped})
}

func TestAVerdictMayEndAProcess(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		synctest.Wait()
		old := w.Snapshot().ProcessID
		w.Judge(Verdict{ProcessID: old, Phase: Stalled, End: Stuck, Why: "no tick taken for 30m"})
		w.Judge(Verdict{ProcessID: old, Phase: Running}) // too late
		wantPhase(t, w, Stopping)
		time.Sleep(time.Second)
		wantPhase(t, w, Backoff) // of its own accord it would do the same again: it waits as after a crash
		time.Sleep(5 * time.Second)
		wantPhase(t, w, Running)
		w.Judge(Verdict{ProcessID: old, Phase: Unhealthy, End: Sick})
		wantPhase(t, w, Running) // it spoke of the last one
	})
	equal(t, "causes", f.causes(), []Cause{Stuck, Shutdown})
	for _, i := range f.incs {
		if i.Status == StatusExited && i.Cause == Stuck && i.Why != "no tick taken for 30m" {
			t.Errorf("the evidence says %q", i.Why)
		}
	}
}

func TestAWishForACrawlerThatNeverGetsWell(t *testing.T) {
	t.Parallel()
	t.Run("is answered with what it died of", func(t *testing.T) {
		t.Parallel()
		f := &fake{stopTakes: time.Second}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			got := ask(t, w, Restart, judged)
			synctest.Wait()
			f.last().end(process.Exit{Code: 1})
			if err, ok := got(); !ok || err == nil {
				t.Errorf("answer %v, %v", err, ok)
			}
			wantPhase(t, w, Backoff)
		})
	})
	t.Run("is served by the next start, where that is wished for", func(t *testing.T) {
		t.Parallel()
		f := &fake{stopTakes: time.Second}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			first := ask(t, w, Restart, judged)
			synctest.Wait()
			second := ask(t, w, Restart, judged)
			time.Sleep(time.Second)
			wantPhase(t, w, Starting)
			judge(w, Running, "", "")
			wantAnswer(t, first, nil)
			wantAnswer(t, second, nil)
		})
	})
	t.Run("is superseded by a stop", func(t *testing.T) {
		t.Parallel()
		f := &fake{stopTakes: time.Second}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			first := ask(t, w, Restart, judged)
			synctest.Wait()
			stop := ask(t, w, Stop, Desire{})
			time.Sleep(time.Second)
			wantAnswer(t, first, ErrSuperseded)
			wantAnswer(t, stop, nil)
		})
	})
}

func TestOfTwoWhoJudgeNeitherUndoesTheOther(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(judged)
		synctest.Wait()
		judge(w, Running, "", "")
		judge(w, Unhealthy, "", "no answer")
		judge(w, Running, Limit, "memory: 3 of 2")
		judge(w, Running, "", "") // while it stops
		judge(w, Stalled, Stuck, "no tick taken")
		time.Sleep(time.Second)
		wantPhase(t, w, Backoff)
	})
	equal(t, "causes", f.causes(), []Cause{Limit})
	if last := f.incs[len(f.incs)-1]; last.Why != "memory: 3 of 2" || last.By != "manager" {
		t.Errorf("the evidence says %q, asked for by %s", last.Why, last.By)
	}
	for _, m := range f.moves {
		if m.From == Unhealthy && m.To != Stopping {
			t.Errorf("an end changed the health: %s -> %s", m.From, m.To)
		}
	}
}

func TestAnEndByAVerdictMayHaveToBeQuick(t *testing.T) {
	t.Parallel()
	for within, want := range map[time.Duration]time.Duration{0: 15 * time.Second, 2 * time.Second: 2 * time.Second, time.Hour: 15 * time.Second} {
		f := &fake{deaf: true}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			w.Want(up)
			synctest.Wait()
			w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, End: Limit, Within: within})
			time.Sleep(want - time.Nanosecond)
			wantPhase(t, w, Stopping)
			time.Sleep(time.Nanosecond)
			wantPhase(t, w, Backoff)
		})
	}
}

func TestAPlannedEndIsNoFailure(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		synctest.Wait()
		w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, End: Restarted, By: "max_age", Why: "max_age: 25h of 24h"})
		time.Sleep(time.Second)
		wantPhase(t, w, Running) // no backoff
	})
	equal(t, "causes", f.causes(), []Cause{Restarted, Shutdown})
	for _, i := range f.incs {
		if i.Status == StatusExited && i.Cause == Restarted && (i.By != "max_age" || i.Why != "max_age: 25h of 24h") {
			t.Errorf("asked for by %q: %q", i.By, i.Why)
		}
	}
}

func TestWhoFillsItsCgroupIsToldItsLimit(t *testing.T) {
	t.Parallel()
	spec := *plain
	spec.Process.Quota.Memory = 512 << 20
	for full, want := range map[bool]string{true: "memory: the kernel ended it at its limit of 512 MiB", false: ""} {
		f := &fake{}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			w.Want(Desire{Up: true, Spec: &spec})
			synctest.Wait()
			f.last().end(process.Exit{Signal: syscall.SIGKILL, Code: -1, OOM: true, Full: full})
			synctest.Wait()
			if why := w.Snapshot().LastExit.Why; why != want {
				t.Errorf("full %v: the snapshot says %q", full, why)
			}
		})
		equal(t, "causes", f.causes(), []Cause{OutOfMemory})
		if why := f.incs[len(f.incs)-1].Why; why != want {
			t.Errorf("full %v: %q", full, why)
		}
	}
}

// A crawler that hangs before it is well, for longer than a stable run takes, has not had one.
func TestOneThatNeverGetsWellIsNotStable(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	spec := *judged.Spec
	spec.Restart = Policy{Max: 3}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(Desire{Up: true, Spec: &spec})
		for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			wantPhase(t, w, Starting)
			time.Sleep(2 * time.Minute)
			judge(w, Unhealthy, Sick, "http: status 500")
			time.Sleep(time.Second)
			synctest.Wait()
			if got := time.Until(w.Snapshot().BackoffUntil); got != want {
				t.Errorf("the next delay is %v, want %v", got, want)
			}
			time.Sleep(want)
		}
		wantEnds(t, w, "starting for the fourth time", 3)
		time.Sleep(2 * time.Minute)
		wantEnds(t, w, "starting, for however long", 3)
		judge(w, Running, "", "")
		time.Sleep(time.Minute - time.Nanosecond)
		wantEnds(t, w, "up, and not stable yet", 3)
		time.Sleep(time.Nanosecond)
		wantEnds(t, w, "stable", 0)
		for range 4 {
			judge(w, Running, "", "")
			judge(w, Running, Sick, "http: status 500")
			time.Sleep(time.Minute)
		}
		wantPhase(t, w, Stopped)
		if trouble := w.Snapshot().Trouble; trouble == nil || !trouble.Exhausted || trouble.Ends != 4 || trouble.Exit.Why != "http: status 500" {
			t.Errorf("%+v", trouble)
		}
	})
}

// Who waits for a crawler to be unhealthy or stalled is told also where that ends it.
func TestOneThatIsEndedForItIsUnwellBefore(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(judged)
		synctest.Wait()
		judge(w, Unhealthy, Sick, "no answer") // it was never up
		time.Sleep(10 * time.Second)
		judge(w, Running, "", "")
		judge(w, Stalled, Stuck, "no tick taken")
		time.Sleep(time.Second)
		wantPhase(t, w, Backoff)
	})
	equal(t, "phases", f.phases(), []Phase{
		Pending, Starting, Stopping, Backoff, Starting, Running, Stalled, Stopping, Backoff, Stopped,
	})
}

// The verdict that a crawler is well is said once: one about its predecessor that comes in between must not take its place.
func TestALateVerdictTakesNoOthersPlace(t *testing.T) {
	t.Parallel()
	f := &fake{}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(judged)
		synctest.Wait()
		old := w.Snapshot().ProcessID
		crash(w, f, process.Exit{Code: 1})
		w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, Phase: Running})
		w.Judge(Verdict{ProcessID: old, End: Limit, Why: "memory: 3 of 2"})
		wantPhase(t, w, Running)
	})
}

func TestAPlannedEndNeedsNoEvidence(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.n.Look = func(int) []string { return []string{"state S"} }
		w.Want(up)
		synctest.Wait()
		judge(w, "", Restarted, "max_age: 25h of 24h")
		time.Sleep(time.Second)
		wantPhase(t, w, Running)
	})
	for _, i := range f.incs {
		if len(i.Evidence) > 0 {
			t.Errorf("%s has evidence: %q", i.Cause, i.Evidence)
		}
	}
}

// What is said of a process that somebody is stopping already is not why it ended.
func TestAVerdictDuringAStopIsNotItsReason(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		synctest.Wait()
		got := ask(t, w, Restart, up)
		synctest.Wait()
		w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, Phase: Running, End: Restarted, Why: "max_age: 1h", By: "max_age"})
		time.Sleep(time.Second)
		wantAnswer(t, got, nil)
	})
	for _, i := range f.incs {
		if i.Status == StatusExited && i.Cause == Restarted && (i.Why != "" || i.By != "test") {
			t.Errorf("ended by %q because %q", i.By, i.Why)
		}
	}
	equal(t, "causes", f.causes(), []Cause{Restarted, Shutdown})
}
