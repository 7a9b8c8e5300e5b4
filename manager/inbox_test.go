package manager

import (
	"testing"
	"testing/synctest"
	"time"
)

// A flood of what others have to say, faster than the fleet can take it, keeps it from nothing: ticks go out in their time, and
// it can be seen to live.
func TestAFloodLeavesTheFleetItsTurn(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(b *bench, until time.Time){
		"all at once": func(b *bench, _ time.Time) {
			for range 20_000 {
				b.inbox.put(func() { time.Sleep(10 * time.Millisecond) })
			}
		},
		"without an end": func(b *bench, until time.Time) {
			var again func()
			again = func() {
				if time.Sleep(10 * time.Millisecond); time.Now().Before(until) {
					b.inbox.put(again)
				}
			}
			b.inbox.put(again)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleetBubble(t, func(b *bench) {
				b.busy = true
				b.poll(row("a", 60))
				start := b.one("at the start", triggerStartup)
				flood(b, time.Now().Add(200*time.Second))
				time.Sleep(60*time.Second + 2*batchLimit)
				if stuck := b.stuckFor(); stuck > 2*batchLimit {
					t.Errorf("it has not turned for %s", stuck)
				}
				b.mu.Lock()
				if n := len(b.pushes); n != 1 || b.pushes[0].due.Sub(start.due) != time.Minute {
					t.Errorf("%d ticks in a minute", n)
				}
				b.mu.Unlock()
				time.Sleep(200 * time.Second)
				synctest.Wait()
			})
		})
	}
}

// What one call leaves, and what came meanwhile, is called in its order, and nobody has to wake the loop for it.
func TestWhatIsLeftInTheInboxWakesTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newInbox()
		var got []int
		for i := range 3 {
			b.put(func() {
				got = append(got, i)
				if i == 2 {
					b.put(func() { got = append(got, 3) })
				}
				time.Sleep(batchLimit)
			})
		}
		for calls := 0; len(got) < 4; calls++ {
			select {
			case <-b.wake:
			default:
				t.Fatalf("after %d calls nobody knows that something waits: %v", calls, got)
			}
			if before := len(got); !b.run() || calls < 3 && len(got) != before+1 {
				t.Fatalf("call %d: %v", calls, got)
			}
		}
		for i, n := range got {
			if i != n {
				t.Fatalf("%v", got)
			}
		}
	})
}
