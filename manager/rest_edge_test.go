package manager

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crawlkeeper/control"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// restingRow is a source as an earlier manager left it.
func restingRow(until time.Duration) sql.Source {
	r := row("a", 60)
	r.PausedUntil = time.Now().Add(until).Round(0)
	r.OwnPause, r.PauseReason, r.PausedBy = r.PausedUntil, "3 in a row", restedBy
	r.Rest = sql.Rest{Level: 2, Since: time.Now().Add(-time.Hour).Round(0)}
	return r
}

func TestWhatEndedARestWhileNoManagerWasThere(t *testing.T) {
	t.Parallel()
	t.Run("somebody cleared paused_until", func(t *testing.T) {
		t.Parallel()
		restBubble(t, 3, func(b *restBench) {
			r := restingRow(time.Hour)
			r.PausedUntil, r.PauseReason, r.PausedBy = time.Time{}, "", "" // as it is read
			b.poll(r)
			b.paused("cleared", 0, time.Time{})
		})
	})
	t.Run("it was switched off", func(t *testing.T) {
		t.Parallel()
		restBubble(t, 0, func(b *restBench) {
			b.poll(restingRow(time.Hour))
			b.paused("switched off", 0, time.Time{})
		})
	})
}

// A row that names an adapter by mistake says nothing of max_failures.
func TestARestOutlivesAnAdapterThatIsUnknown(t *testing.T) {
	t.Parallel()
	restBubble(t, 1, func(b *restBench) {
		b.run(func() { b.conf.Adapters["x"] = b.conf.Adapters["*"]; delete(b.conf.Adapters, "*") })
		b.rested()
		b.written()
		r := b.seen()
		r.Adapter = "y"
		b.poll(r)
		b.paused("unknown", 1, r.PausedUntil)
	})
}

func TestTheReasonOfARestIsFitToBeShown(t *testing.T) {
	t.Parallel()
	restBubble(t, 1, func(b *restBench) {
		b.poll(row("a", 60))
		b.round(time.Minute, "failed", "\nget https://user:hunter2@example.org/\n"+strings.Repeat("é", 300))
		s := b.seen()
		if strings.Contains(s.PauseReason, "hunter2") || strings.Contains(s.PauseReason, "\n") || !utf8.ValidString(s.PauseReason) || len(s.PauseReason) > 500 {
			t.Errorf("%q", s.PauseReason)
		}
	})
}

func TestAPauseThatEndsWithoutAScheduleIsProbedOnceThereIsOne(t *testing.T) {
	t.Parallel()
	restBubble(t, 1, func(b *restBench) {
		b.rested()
		b.written()
		r := b.seen()
		without := r
		without.IntervalSeconds = nil
		b.poll(without)
		time.Sleep(time.Until(r.PausedUntil) + time.Minute)
		without.BackfillHours = new(48) // whatever: it is looked at
		b.poll(without)
		b.nothing("no schedule")
		b.poll(r)
		time.Sleep(3 * time.Minute)
		b.one("the probe", triggerSchedule)
	})
}

// A probe whose answer comes when its crawler is gone: what it pushed was deleted, or will be, before the next one begins.
func TestAProbeForACrawlerThatIsGoneIsNone(t *testing.T) {
	t.Parallel()
	restBubble(t, 1, func(b *restBench) {
		b.rested()
		hold := make(chan struct{})
		b.mu.Lock()
		b.hold = hold
		b.mu.Unlock()
		time.Sleep(time.Until(b.seen().PausedUntil) + 5*time.Second)
		b.one("the probe", triggerSchedule)
		b.crash("a")
		time.Sleep(6 * time.Second) // the next one is up
		b.mu.Lock()
		b.hold = nil
		b.mu.Unlock()
		close(hold)
		time.Sleep(2 * time.Minute)
		b.one("the probe for the next one", triggerStartup)
	})
}

func TestWhoPausedStandsInTheStatus(t *testing.T) {
	t.Parallel()
	restBubble(t, 0, func(b *restBench) {
		b.poll(row("a", 60))
		by := func() (by string) {
			b.run(func() {
				var r status.Record
				b.record(b.sources["a"], &r, b.clock.now())
				by = r.PausedBy
			})
			return by
		}
		b.do(control.Command{Action: "pause", Sources: []string{"a"}, By: "anna"})
		if got := by(); got != "anna" {
			t.Errorf("paused by %q", got)
		}
		b.do(control.Command{Action: "resume", Sources: []string{"a"}, By: "anna"})
		if got := by(); got != "" {
			t.Errorf("resumed, and yet by %q", got)
		}
	})
}
