package worker

import (
	"context"
	"log/slog"
	"strconv"
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
		steps := rapid.SliceOfN(rapid.IntRange(0, 11), 1, 40).Draw(r, "steps")
		pauses := rapid.SliceOfN(rapid.Int64Range(0, int64(8*time.Second)), len(steps), len(steps)).Draw(r, "pauses")
		takes := rapid.Int64Range(0, int64(20*time.Second)).Draw(r, "takes")
		fails := rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(r, "fails")
		synctest.Test(t, func(t *testing.T) { anyOrder(t, steps, pauses, time.Duration(takes), fails) })
	}
}

func anyOrder(t *testing.T, steps []int, pauses []int64, takes time.Duration, fails []bool) {
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
	go func() { _ = w.Run(ctx); close(done) }()
	asked, answers := 0, make(chan error, 100)
	wish := func(k Kind, d Desire) {
		asked++
		w.Wish(k, d, func(err error) { answers <- err })
	}
	wanted, spec := false, plain
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
			other := *plain
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
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, Phase: Running}) // whoever waits for a crawler to be well
	synctest.Wait()
	if len(answers) != asked {
		t.Errorf("%d answers to %d wishes", len(answers), asked)
	}
	s := w.Snapshot()
	allFail := true
	for _, b := range fails {
		allFail = allFail && b
	}
	switch {
	case !wanted && (s.Phase != Stopped || f.alive != 0):
		t.Errorf("phase %s with %d alive, nothing is wanted", s.Phase, f.alive)
	case wanted && !allFail && f.alive == 1 && !s.Phase.Up() && !(spec.Judged && s.Phase == Starting):
		t.Errorf("phase %s, but its crawler runs", s.Phase)
	case wanted && f.alive == 0 && s.Phase != Backoff && s.Phase != Cooling:
		t.Errorf("phase %s, but a crawler is wanted", s.Phase)
	}
	cancel()
	<-done
	if f.alive != 0 {
		t.Errorf("%d processes are left", f.alive)
	}
}
