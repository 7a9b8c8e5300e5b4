package manager

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/worker/process"
)

// A manager that was stopped for longer than its key lives learns first that its crawlers were ended, and only then whose the
// key is: until then what began after its last beat may be its successor's.
func TestAMarkOfAManagerThatSleptReachesNoSuccessor(t *testing.T) {
	t.Parallel()
	held := time.Now().Add(-time.Minute)
	later := held.Add(30 * time.Second)
	for what, c := range map[string]struct {
		beat time.Duration // ago
		lost bool
		cut  bool
	}{
		"it beats":                      {beat: 0},
		"it slept":                      {beat: time.Minute, cut: true},
		"it beats, and the key is gone": {beat: 0, lost: true, cut: true},
	} {
		l := &lease{ttl: 10 * time.Second}
		l.heldAt.Store(held.UnixNano())
		l.beat.Store(int64(process.SinceBoot() - c.beat))
		l.lost.Store(c.lost)
		if got := l.bound(later); got.Equal(later) == c.cut {
			t.Errorf("%s: %v after the last beat", what, got.Sub(held))
		}
		if before := held.Add(-time.Second); !l.bound(before).Equal(before) {
			t.Errorf("%s: what is before the last beat is cut", what)
		}
	}
}

func TestTheSecondMarkKnowsBetter(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.track("a")
		held := time.Now()
		var sure atomic.Bool
		b.bound = func(at time.Time) time.Time {
			if sure.Load() {
				return at
			}
			return held
		}
		b.poll(row("a", 60))
		time.Sleep(time.Second)
		b.crash("a")
		sure.Store(true)
		time.Sleep(secondMark)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.marks) != 2 || !b.marks[0].Ended.Equal(held) || !b.marks[1].Ended.Equal(held.Add(time.Second)) {
			t.Errorf("marks %+v", b.marks)
		}
	})
}
