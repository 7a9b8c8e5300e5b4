package manager

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/control"
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

// crashUnsure ends a crawler a second after its start, at a moment at which it is not known that the key was ours since then; just
// after it is.
func (b *bench) crashUnsure(code string) (held time.Time) {
	b.track(code)
	held = time.Now()
	var sure atomic.Bool
	b.bound = func(at time.Time) time.Time {
		if sure.Load() {
			return at
		}
		return held
	}
	b.poll(row(code, 60))
	time.Sleep(time.Second) // fake time
	b.crash(code)
	sure.Store(true)
	return held
}

func TestTheSecondMarkKnowsBetter(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		held := b.crashUnsure("a")
		time.Sleep(secondMark)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.marks) != 2 || !b.marks[0].Ended.Equal(held) || !b.marks[1].Ended.Equal(held.Add(time.Second)) {
			t.Errorf("marks %+v", b.marks)
		}
	})
}

// A mark that is bounded leaves a run open. The next crawler's end, in the time until the second mark, must not take it.
func TestTheNextEndLeavesARunToItsOwn(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		held := b.crashUnsure("a")
		first := time.Now()
		b.do(control.Command{Action: control.ActionRestart, Sources: []string{"a"}}) // ends the backoff
		time.Sleep(secondMark / 2)
		b.crash("a")
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.marks); n != 3 || !b.marks[0].Ended.Equal(held) || !b.marks[n-2].Ended.Equal(first) || !b.marks[n-1].Ended.Equal(time.Now()) {
			t.Errorf("marks %+v: want the first end told anew before the second", b.marks)
		}
	})
}
