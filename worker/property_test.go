package worker

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"crawlkeeper/worker/process"
)

var discard = slog.New(slog.DiscardHandler)

// Any order of start, stop, restart, crash, changes and shutdown: never two trees, never one left, every wish answered
// once, every move in the table (the fake checks all of that), and in the end what was wished last.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for range 100 { // of 100 sequences each
		rapid.Check(t, anySequence(t))
	}
}

func anySequence(t *testing.T) func(*rapid.T) {
	return func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 40).Draw(r, "steps")
		pauses := rapid.SliceOfN(rapid.Int64Range(0, int64(8*time.Second)), len(steps), len(steps)).Draw(r, "pauses")
		takes := rapid.Int64Range(0, int64(20*time.Second)).Draw(r, "takes")
		fails := rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(r, "fails")
		policy := Policy{
			When:   rapid.SampledFrom([]When{Always, OnFailure, Never}).Draw(r, "when"),
			Max:    rapid.IntRange(0, 3).Draw(r, "max"),
			Within: rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(r, "within"),
		}
		synctest.Test(t, func(t *testing.T) { anyOrder(t, steps, pauses, time.Duration(takes), fails, policy) })
	}
}

func anyOrder(t *testing.T, steps []int, pauses []int64, takes time.Duration, fails []bool, policy Policy) {
	f := &fake{t: t, stopTakes: takes}
	f.startErr = func(n int) error {
		if fails[n%len(fails)] {
			return &process.StartError{Program: "x", Reason: "no", Err: errBroken}
		}
		return nil
	}
	w := New("src", Needs{Start: f.start, Observer: f, Logger: discard})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	w.Live(ctx, func() { close(done) })
	asked, answers := 0, make(chan error, 100)
	wish := func(k Kind, d Desire) {
		asked++
		w.Wish(k, d, func(err error) { answers <- err })
	}
	first := *plain
	first.Restart = policy
	wanted, spec := false, &first
	for i, step := range steps {
		switch step {
		case 0, 1:
			wanted = true
			wish(Restart, Desire{Up: true, Spec: spec})
		case 2:
			wanted = true
			wish(Start, Desire{Up: true, Spec: spec})
		case 3:
			wanted = false
			wish(Stop, Desire{})
		case 4:
			other := *spec
			other.Key = strconv.Itoa(i)
			spec, wanted = &other, true
			w.Want(Desire{Up: true, Spec: spec})
		case 5:
			wanted = false
			w.Want(Desire{})
		case 8:
			judged := *spec
			judged.Judged, judged.Key = !spec.Judged, strconv.Itoa(i)
			spec, wanted = &judged, true
			w.Want(Desire{Up: true, Spec: spec})
		case 9, 10, 11:
			w.Judge(Verdict{
				ProcessID: w.Snapshot().ProcessID, Phase: []Phase{Running, Unhealthy, Stalled}[step-9],
				End: []Cause{"", Sick, Stuck, Limit}[pauses[i]%4],
			})
		case 12:
			asked++
			w.Notify(syscall.SIGHUP, func(err error) { answers <- err })
		default:
			f.mu.Lock()
			if n := len(f.procs); n > 0 {
				f.procs[n-1].end(process.Exit{Code: step % 2})
			}
			f.mu.Unlock()
		}
		if pauses[i]%3 != 0 { // a third of the steps comes without any pause after it
			time.Sleep(time.Duration(pauses[i]))
		}
	}
	synctest.Wait()
	left := len(f.phases())
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, Phase: Running}) // whoever waits for a crawler to be well
	time.Sleep(plain.Delay.Stable)
	synctest.Wait()
	if len(answers) != asked {
		t.Errorf("%d answers to %d wishes and notices", len(answers), asked)
	}
	atRest(t, w.Snapshot(), f, wanted, policy, slices.Contains(fails, false))
	if policy.When == Never && (slices.Contains(f.phases(), Backoff) || slices.Contains(f.phases(), Cooling)) {
		t.Errorf("a backoff although nothing is started again: %v", f.phases())
	}
	if n := inARow(f.phases()[left:]); policy.Max > 0 && policy.Within == 0 && n > policy.Max {
		t.Errorf("%d restarts in a row, %d are allowed: %v", n, policy.Max, f.phases()[left:])
	}
	cancel()
	<-done
	if f.alive != 0 {
		t.Errorf("%d processes are left", f.alive)
	}
}

// atRest checks where a worker is two hours after all that happened: its crawler runs, or is started anew again and
// again where none can start, or was given up where the policy can do that.
func atRest(t *testing.T, s *Snapshot, f *fake, wanted bool, p Policy, canStart bool) {
	t.Helper()
	givenUp := s.Trouble != nil && s.Trouble.GivenUp != ""
	mayGiveUp := p.When != Always || p.Max > 0
	switch {
	case !wanted:
		if s.Phase != Stopped || f.alive != 0 || s.Trouble != nil {
			t.Errorf("phase %s with %d alive and %+v, nothing is wanted", s.Phase, f.alive, s.Trouble)
		}
	case s.Phase == Running:
		if f.alive != 1 || s.Trouble != nil {
			t.Errorf("running with %d alive and %+v", f.alive, s.Trouble)
		}
	case s.Phase == Stopped:
		if !givenUp || !mayGiveUp || f.alive != 0 || s.Trouble.Exhausted && p.Max == 0 {
			t.Errorf("stopped with %d alive and %+v under %+v, but a crawler is wanted", f.alive, s.Trouble, p)
		}
	case s.Phase != Backoff && s.Phase != Cooling || canStart || givenUp || f.alive != 0:
		t.Errorf("phase %s with %d alive and %+v under %+v", s.Phase, f.alive, s.Trouble, p)
	}
}

// inARow is the longest row of pauses that no running crawler and no rest came between.
func inARow(phases []Phase) int {
	n, most := 0, 0
	for _, p := range phases {
		switch p {
		case Backoff, Cooling:
			n++
			most = max(most, n)
		case Running, Stopped:
			n = 0
		}
	}
	return most
}
