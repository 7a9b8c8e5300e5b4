package worker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/worker/process"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(seconds ...int) []time.Time {
		var out []time.Time
		for _, s := range seconds {
			out = append(out, now.Add(-time.Duration(s)*time.Second))
		}
		return out
	}
	for _, c := range []struct {
		policy    Policy
		streak    streak
		want      string
		exhausted bool
	}{
		{Policy{}, streak{ends: 1000, cause: Exited}, "", false},
		{Policy{When: Always}, streak{ends: 1, cause: Exited}, "", false},
		{Policy{When: OnFailure}, streak{ends: 1, cause: Exited}, "not restarted: policy on-failure", false},
		{Policy{When: OnFailure}, streak{ends: 1, cause: Crashed}, "", false},
		{Policy{When: OnFailure}, streak{ends: 1, cause: Signalled}, "", false},
		{Policy{When: OnFailure}, streak{ends: 1, cause: OutOfMemory}, "", false},
		{Policy{When: OnFailure}, streak{ends: 1, cause: StartFailed}, "", false},
		{Policy{When: Never}, streak{ends: 1, cause: StartFailed}, "not restarted: policy never", false},
		{Policy{When: Never, Max: 1}, streak{ends: 2, cause: Crashed}, "not restarted: policy never", false},
		{Policy{Max: 5}, streak{ends: 5, cause: Crashed}, "", false},
		{Policy{Max: 5}, streak{ends: 6, cause: Exited}, "gave up after 5 restarts in a row", true},
		{Policy{Max: 1}, streak{ends: 2, cause: Crashed}, "gave up after 1 restart in a row", true},
		{Policy{When: OnFailure, Max: 1}, streak{ends: 2, cause: Exited}, "not restarted: policy on-failure", false},
		{Policy{Max: 2, Within: 10 * time.Minute}, streak{ends: 9, restarts: ago(600, 599)}, "", false},
		{Policy{Max: 2, Within: 10 * time.Minute}, streak{ends: 1, restarts: ago(599, 1)}, "gave up after 2 restarts within 10m", true},
		{Policy{Max: 1, Within: 90 * time.Second}, streak{ends: 1, restarts: ago(1)}, "gave up after 1 restart within 1m30s", true},
		{Policy{Max: 1, Within: 2 * time.Hour}, streak{ends: 1, restarts: ago(1)}, "gave up after 1 restart within 2h", true},
		{Policy{Max: 1, Within: 10 * time.Second}, streak{ends: 1, restarts: ago(1)}, "gave up after 1 restart within 10s", true},
	} {
		why, exhausted := c.policy.refuses(c.streak, now)
		if why != c.want || exhausted != c.exhausted {
			t.Errorf("%+v after %+v: %q, %v, want %q, %v", c.policy, c.streak, why, exhausted, c.want, c.exhausted)
		}
	}
}

// What a policy counts by time takes no more memory than it allows restarts.
func TestRestartsThatCountNoMoreAreForgotten(t *testing.T) {
	t.Parallel()
	p := Policy{Max: 3, Within: 10 * time.Second}
	s, now := streak{}, time.Now()
	for i := range 100 {
		s.allow(p, now.Add(time.Duration(i)*4*time.Second))
	}
	if len(s.restarts) != 3 {
		t.Errorf("%d are kept", len(s.restarts))
	}
	s.allow(Policy{Max: 3}, now)
	if s.restarts != nil {
		t.Errorf("%v is kept although it is counted in a row", s.restarts)
	}
}

// under is a desire for a crawler under a policy.
func under(p Policy) Desire {
	spec := *plain
	spec.Restart = p
	return Desire{Up: true, Spec: &spec, By: "test"}
}

func wantGivenUp(t *testing.T, w *Worker, why string) {
	t.Helper()
	synctest.Wait()
	s := w.Snapshot()
	if s.Phase != Stopped || s.Trouble == nil || s.Trouble.GivenUp != why || s.Pid != 0 || !s.BackoffUntil.IsZero() {
		t.Errorf("%+v with %+v, want it given up: %s", s, s.Trouble, why)
	}
}

const never = "not restarted: policy never"

func TestAPolicyThatStartsNothingAgain(t *testing.T) {
	t.Parallel()
	f := &fake{}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(under(Policy{When: Never}))
		synctest.Wait()
		f.last().end(process.Exit{Code: 1})
		wantGivenUp(t, w, never)
		time.Sleep(24 * time.Hour)
		wantGivenUp(t, w, never)
		if len(f.starts) != 1 {
			t.Errorf("%d starts", len(f.starts))
		}
	})
	equal(t, "phases", f.phases(), []Phase{Pending, Starting, Running, Stopping, Stopped})
	last, inc := f.moves[len(f.moves)-1], f.incs[len(f.incs)-1]
	if last.Cause != Crashed || inc.GivenUp != never || inc.Exhausted || inc.Delay != 0 {
		t.Errorf("%+v, %+v", last, inc)
	}
}

func TestOnFailureIsForFailures(t *testing.T) {
	t.Parallel()
	f := &fake{startErr: func(n int) error {
		if n == 2 {
			return &process.StartError{Program: "x", Reason: "no", Err: errBroken}
		}
		return nil
	}}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(under(Policy{When: OnFailure}))
		synctest.Wait()
		f.last().end(process.Exit{Code: 1})
		wantPhase(t, w, Backoff)
		time.Sleep(5 * time.Second)
		wantPhase(t, w, Backoff) // the start failed
		time.Sleep(10 * time.Second)
		wantPhase(t, w, Running)
		f.last().end(process.Exit{})
		wantGivenUp(t, w, "not restarted: policy on-failure")
	})
}

func TestAStartThatFailsIsAFailure(t *testing.T) {
	t.Parallel()
	f := &fake{startErr: func(int) error { return &process.StartError{Program: "x", Reason: "no", Err: errBroken} }}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		d := under(Policy{When: Never})
		w.Want(d)
		wantGivenUp(t, w, never)
		wantAnswer(t, ask(t, w, Restart, d), errBroken)
		wantGivenUp(t, w, never)
		d = under(Policy{When: OnFailure, Max: 2})
		w.Want(d)
		wantPhase(t, w, Backoff)
		time.Sleep(time.Hour)
		wantGivenUp(t, w, "gave up after 2 restarts in a row")
		if len(f.starts) != 2+3 {
			t.Errorf("%d starts", len(f.starts))
		}
	})
	equal(t, "phases", f.phases()[:4], []Phase{Pending, Starting, Stopping, Stopped})
	for _, m := range f.moves[2:4] {
		if m.Cause != StartFailed {
			t.Errorf("%+v", m)
		}
	}
}

func TestMostRestartsInARow(t *testing.T) {
	t.Parallel()
	f := &fake{}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(under(Policy{Max: 2}))
		crash(w, f, process.Exit{Code: 1})
		crash(w, f, process.Exit{Code: 1})
		time.Sleep(time.Minute) // stable
		crash(w, f, process.Exit{Code: 1})
		crash(w, f, process.Exit{Code: 1})
		f.last().end(process.Exit{Code: 7})
		wantGivenUp(t, w, "gave up after 2 restarts in a row")
		if got := w.Snapshot().Trouble; !got.Exhausted || got.Ends != 3 || got.Exit.Code != 7 {
			t.Errorf("%+v", got)
		}
	})
	if inc := f.incs[len(f.incs)-1]; !inc.Exhausted {
		t.Errorf("%+v", inc)
	}
}

// A stable run ends a row, but not what is counted by time.
func TestMostRestartsWithinATime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs    time.Duration
		givenUp bool
	}{
		"the third restart would be in time": {64*time.Second - time.Nanosecond, true},
		"and a moment later it is not":       {64 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			bubble(t, f, func(w *Worker, _ context.CancelFunc) {
				// Each run is stable, so each pause is 5 s: restarts are 69 s apart, where the first and the third are 138.
				w.Want(under(Policy{Max: 2, Within: 138 * time.Second}))
				for range 2 {
					time.Sleep(64 * time.Second)
					crash(w, f, process.Exit{Code: 1})
					wantPhase(t, w, Running)
				}
				time.Sleep(c.runs)
				f.last().end(process.Exit{Code: 1})
				if !c.givenUp {
					wantPhase(t, w, Backoff)
					return
				}
				wantGivenUp(t, w, "gave up after 2 restarts within 2m18s")
			})
		})
	}
}

func TestWhatBringsAGivenUpCrawlerBack(t *testing.T) {
	t.Parallel()
	policy := Policy{When: Never}
	down := Desire{By: "test"}
	changed := func(change func(*Spec)) Desire {
		d := under(policy)
		change(d.Spec)
		return d
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, w *Worker, same Desire)
		back bool
	}{
		"restart":            {func(t *testing.T, w *Worker, same Desire) { wantAnswer(t, ask(t, w, Restart, same), nil) }, true},
		"start":              {func(t *testing.T, w *Worker, same Desire) { wantAnswer(t, ask(t, w, Start, same), nil) }, true},
		"another command":    {func(_ *testing.T, w *Worker, _ Desire) { w.Want(changed(func(s *Spec) { s.Key = "other" })) }, true},
		"another policy":     {func(_ *testing.T, w *Worker, _ Desire) { w.Want(changed(func(s *Spec) { s.Restart.Max = 1 })) }, true},
		"another backoff":    {func(_ *testing.T, w *Worker, _ Desire) { w.Want(changed(func(s *Spec) { s.Delay.Max = time.Hour })) }, false},
		"the same once more": {func(_ *testing.T, w *Worker, same Desire) { w.Want(same) }, false},
		"not wanted, and again": {func(t *testing.T, w *Worker, same Desire) {
			w.Want(down)
			wantEnds(t, w, "not wanted", 0)
			w.Want(same)
		}, true},
		"stop": {func(t *testing.T, w *Worker, _ Desire) {
			wantAnswer(t, ask(t, w, Stop, down), nil)
			wantEnds(t, w, "stopped", 0)
		}, false},
		"stop and start": {func(t *testing.T, w *Worker, same Desire) {
			stop, start := ask(t, w, Stop, down), ask(t, w, Start, same)
			wantAnswer(t, start, nil)
			if err, ok := stop(); !ok || err != nil && !strings.Contains(err.Error(), "superseded") {
				t.Errorf("%v, %v", err, ok)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			bubble(t, f, func(w *Worker, _ context.CancelFunc) {
				d := under(policy)
				w.Want(d)
				synctest.Wait()
				f.last().end(process.Exit{Code: 1})
				wantGivenUp(t, w, never)
				c.do(t, w, d)
				if c.back {
					wantPhase(t, w, Running)
					if got := w.Snapshot(); got.Trouble != nil {
						t.Errorf("%+v", got.Trouble)
					}
				} else {
					wantPhase(t, w, Stopped)
				}
			})
		})
	}
}

// A wish and a change are stronger than the policy, also where they come while the end is under way.
func TestAPolicyDoesNotStandAgainstAWish(t *testing.T) {
	t.Parallel()
	other := under(Policy{When: Never})
	other.Spec.Key = "other"
	for name, ask := range map[string]func(w *Worker, same Desire){
		"restart": func(w *Worker, same Desire) { w.Wish(Restart, same, func(error) {}) },
		"start":   func(w *Worker, same Desire) { w.Wish(Start, same, func(error) {}) },
		"change":  func(w *Worker, _ Desire) { w.Want(other) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			bubble(t, f, func(w *Worker, _ context.CancelFunc) {
				d := under(Policy{When: Never})
				w.Want(d)
				synctest.Wait()
				f.mu.Lock()
				f.stuck = make(chan struct{})
				f.mu.Unlock()
				f.last().end(process.Exit{Code: 1})
				wantPhase(t, w, Stopping)
				ask(w, d)
				synctest.Wait()
				close(f.stuck)
				wantPhase(t, w, Running)
			})
			if slices.Contains(f.phases()[:6], Stopped) {
				t.Errorf("it was given up first: %v", f.phases())
			}
		})
	}
}

func TestAPolicyDoesNotStandAgainstAWishDuringAStartThatFails(t *testing.T) {
	t.Parallel()
	f := &fake{startErr: func(n int) error {
		if n == 1 {
			return &process.StartError{Program: "x", Reason: "no", Err: errBroken}
		}
		return nil
	}}
	d := under(Policy{When: Never})
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		f.startGate = make(chan struct{}, 2) // of this bubble
		w.Want(d)
		wantPhase(t, w, Starting)
		got := ask(t, w, Start, d)
		synctest.Wait()
		f.startGate <- struct{}{}
		f.startGate <- struct{}{}
		wantAnswer(t, got, nil)
		wantPhase(t, w, Running)
	})
	equal(t, "phases", f.phases()[:3], []Phase{Pending, Starting, Running})
}
