package manager

import (
	"testing"
	"time"
)

// A source that was deleted and is made again goes on after what went out before, whether the janitor was there meanwhile or not.
func TestASourceMadeAgain(t *testing.T) {
	t.Parallel()
	for name, janitor := range map[string]bool{"at once": false, "when all of it was forgotten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleetBubble(t, func(b *bench) {
				b.lost = map[string]time.Time{"a": time.Now().Add(-time.Hour)}
				b.busy = true
				r := cronRow("a", "0 * * * *")
				b.poll(r)
				time.Sleep(3*time.Hour + 30*time.Minute)
				seen := map[time.Time]bool{}
				for _, p := range b.sent() {
					seen[p.due] = true
				}
				if len(seen) == 0 {
					t.Fatal("nothing went out")
				}
				b.poll()
				time.Sleep(48 * time.Hour)
				if janitor {
					b.mu.Lock()
					delete(b.last, "a")
					b.mu.Unlock()
				}
				b.poll(r)
				time.Sleep(90 * time.Minute)
				again := b.sent()
				for _, p := range again {
					if seen[p.due] {
						t.Errorf("%v came twice", p.due)
					}
				}
				if len(again) == 0 {
					t.Error("it gets no ticks")
				}
			})
		})
	}
}

// Whoever edits the jitter alone does not take back what is due.
func TestAnotherJitterKeepsWhatIsDue(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		r := row("a", 86400)
		r.Jitter = 10 * time.Hour
		b.poll(r)
		b.nothing("it waits its jitter")
		r.Jitter = 9 * time.Hour
		b.poll(r)
		time.Sleep(20 * time.Hour)
		if got := b.sent(); len(got) != 1 {
			t.Errorf("the tick of the start: %v", got)
		}
	})
}

// An interval that waits for its time at a start: its tick, whose answer was lost, was deleted by the cleaning.
func TestADeletedTickWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.track("a")
		b.poll(cronRow("a", "@every 1h"))
		b.mu.Lock()
		b.lose = true
		b.mu.Unlock()
		time.Sleep(time.Hour)
		d := b.one("the answer is lost", triggerStartup)
		b.mu.Lock()
		b.err = errAway
		b.mu.Unlock()
		b.crash("a")
		time.Sleep(time.Second)
		b.mu.Lock()
		b.err = nil
		b.mu.Unlock()
		time.Sleep(30 * time.Minute)
		if got := b.sent(); len(got) != 1 || !got[0].due.Equal(d.due) {
			t.Errorf("again: %+v, want %v", got, d.due)
		}
	})
}

// The same, as the clock was set back: the name lies in the future then, and the tick is due all the same.
func TestADeletedTickFromBeforeTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.track("a")
		b.poll(cronRow("a", "@every 1h"))
		time.Sleep(time.Hour)
		d := b.one("the first", triggerStartup)
		b.mu.Lock()
		b.skew = -5 * time.Hour
		b.mu.Unlock()
		time.Sleep(time.Minute)
		for i := range 3 {
			b.crash("a")
			time.Sleep(4 * time.Minute)
			if got := b.sent(); len(got) != 1 || !got[0].due.Equal(d.due) {
				t.Errorf("%d again: %+v, want %v", i, got, d.due)
			}
		}
	})
}
