package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/worker/process"
)

// crash ends the crawler that runs, and waits until the next one does.
func crash(w *Worker, f *fake, e process.Exit) {
	synctest.Wait()
	f.last().end(e)
	synctest.Wait()
	time.Sleep(time.Until(w.Snapshot().BackoffUntil))
	synctest.Wait()
}

func wantEnds(t *testing.T, w *Worker, what string, want int) {
	t.Helper()
	synctest.Wait()
	got := 0
	if trouble := w.Snapshot().Trouble; trouble != nil {
		got = trouble.Ends
	}
	if got != want {
		t.Errorf("%s: %d ends in a row, want %d", what, got, want)
	}
}

func TestTroubleIsSaidFromTheSecondEndInARow(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		crash(w, f, process.Exit{Code: 1})
		wantEnds(t, w, "one end", 0)
		crash(w, f, process.Exit{Code: 1})
		wantEnds(t, w, "two, and running again", 2)
		crash(w, f, process.Exit{Code: 1})
		before := w.Snapshot().Trouble
		if before.Mixed || before.Exit.Cause != Crashed || before.Exit != w.Snapshot().LastExit {
			t.Errorf("%+v", before)
		}
		crash(w, f, process.Exit{})
		if got := w.Snapshot().Trouble; !got.Mixed || got.Ends != 4 || before.Ends != 3 {
			t.Errorf("%+v after %+v", got, before)
		}

		time.Sleep(time.Minute - time.Nanosecond)
		wantEnds(t, w, "not stable yet", 4)
		time.Sleep(time.Nanosecond)
		wantEnds(t, w, "stable", 0)
		wantPhase(t, w, Running)
		crash(w, f, process.Exit{Code: 1})
		wantEnds(t, w, "the first after a stable run", 0)
		crash(w, f, process.Exit{Code: 1})
		wantEnds(t, w, "the second", 2)

		wantAnswer(t, ask(t, w, Start, up), nil)
		wantEnds(t, w, "a start command where it runs", 2)
		restart := ask(t, w, Restart, up)
		wantEnds(t, w, "a restart command", 0)
		time.Sleep(time.Second)
		wantAnswer(t, restart, nil)
		crash(w, f, process.Exit{Code: 1})
		wantEnds(t, w, "the first after the command", 0)
		crash(w, f, process.Exit{Code: 1})
		wantEnds(t, w, "the second after it", 2)
		w.Want(Desire{})
		time.Sleep(time.Second)
		wantEnds(t, w, "none is wanted", 0)
		w.Want(up)
		synctest.Wait()
		f.last().end(process.Exit{Code: 1})
		wantEnds(t, w, "wanted again", 0)
		if got := time.Until(w.Snapshot().BackoffUntil); got != 5*time.Second {
			t.Errorf("the next delay is %v", got)
		}
	})
}

func TestAnotherSpecIsANewBeginning(t *testing.T) {
	t.Parallel()
	f := &fake{}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		crash(w, f, process.Exit{Code: 1})
		crash(w, f, process.Exit{Code: 1})
		f.last().end(process.Exit{Code: 1})
		wantPhase(t, w, Backoff)
		wantEnds(t, w, "in backoff", 3)
		other := *plain
		other.Key = "other"
		w.Want(Desire{Up: true, Spec: &other})
		wantPhase(t, w, Running)
		wantEnds(t, w, "another spec", 0)
		f.last().end(process.Exit{Code: 1})
		synctest.Wait()
		if got := time.Until(w.Snapshot().BackoffUntil); got != 5*time.Second {
			t.Errorf("the next delay is %v", got)
		}
	})
}

func TestAnEndThatWasAskedForIsANewBeginning(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: 2 * time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		crash(w, f, process.Exit{Code: 1})
		crash(w, f, process.Exit{Code: 1})
		w.Want(Desire{})
		wantPhase(t, w, Stopping)
		w.Want(up) // before it has ended
		time.Sleep(2 * time.Second)
		wantPhase(t, w, Running)
		wantEnds(t, w, "wanted again", 0)
	})
}

func TestTheLastLineIsNoBlankOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"a", "b"}, "b"},
		{[]string{"a", " b ", "", "\t"}, "b"},
		{[]string{"", " "}, ""},
	} {
		if got := lastLine(c.lines); got != c.want {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}
