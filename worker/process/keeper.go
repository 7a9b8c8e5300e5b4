package process

import (
	"context"
	"os"
	"syscall"
	"time"
)

// The pace of passes over what is left of trees: quick at first, as most of it dies at once, then patient.
const (
	firstPass = 200 * time.Microsecond
	lastPass  = time.Second
	// What happens within the gap after a pass for trees shares the next one: thousands of ends at once are a few passes. A
	// tree that ended alone waits for nothing. Passes that only reap take a tenth of the time at most, so that many daemons of living trees cost little.
	leastGap    = 500 * time.Microsecond
	longestGap  = 50 * time.Millisecond
	reapShare   = 10
	longestReap = 500 * time.Millisecond
)

// keeper reaps orphans and sweeps trees. One pass looks at all orphans once for all trees that wait. All of it belongs
// to the goroutine of run.
type keeper struct {
	s        *Spawner
	self     int
	trees    map[*tree]struct{} // that have ended and wait until nothing is left of them
	unmarked map[int]sighting   // orphans that may be a living tree's, or a stranger's
	timer    *time.Timer
	news     bool          // since the last pass a tree came or a child ended
	ended    time.Time     // of the last pass
	swept    time.Time     // of the last pass with trees that waited
	took     time.Duration // of the last pass
}

func newKeeper(s *Spawner) *keeper {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &keeper{s: s, self: os.Getpid(), trees: map[*tree]struct{}{}, unmarked: map[int]sighting{}, timer: timer, ended: time.Now()}
}

func (k *keeper) run(ctx context.Context, signals <-chan os.Signal) {
	defer k.timer.Stop()
	for {
		select {
		case t := <-k.s.sweeps:
			k.add(t)
			k.drain()
			k.news = true
		case <-signals:
			k.news = true
		case <-k.timer.C:
		case <-ctx.Done():
			for t := range k.trees { // nobody is left to end them; the leaders' kin dies with the container or is found by its number
				k.s.live.Add(1) // for good: something may be left
				close(t.done)
			}
			return
		}
		k.step(time.Now())
	}
}

func (k *keeper) add(t *tree) {
	t.pause, t.next = firstPass, time.Time{}
	k.trees[t] = struct{}{}
}

// drain takes all trees that came meanwhile: thousands of ends at once are a few passes.
func (k *keeper) drain() {
	for {
		select {
		case t := <-k.s.sweeps:
			k.add(t)
		default:
			return
		}
	}
}

// step makes a pass where one is due, and sets the timer for the next.
func (k *keeper) step(now time.Time) {
	if next := k.next(); !next.IsZero() && !now.Before(next) {
		k.news = false
		waited := len(k.trees) > 0
		k.pass(now)
		k.ended = time.Now()
		k.took = k.ended.Sub(now)
		if waited {
			k.swept = k.ended
		}
	}
	if next := k.next(); next.IsZero() {
		k.timer.Stop()
	} else {
		k.timer.Reset(max(0, time.Until(next)))
	}
}

// next is when the next pass is due, zero for none.
func (k *keeper) next() time.Time {
	var next time.Time
	if k.news {
		next = k.swept.Add(min(max(k.took, leastGap), longestGap))
		if len(k.trees) == 0 {
			next = k.ended.Add(min(reapShare*k.took, longestReap))
		}
	}
	for t := range k.trees {
		if !t.next.IsZero() && (next.IsZero() || t.next.Before(next)) {
			next = t.next
		}
	}
	return next
}

// pass looks at the orphans and what is below them, reaps the dead and kills what belongs to a tree that ended. What was
// never found to have left anything is looked for twice at once, as the kernel's list of children can miss some while it changes.
func (k *keeper) pass(now time.Time) {
	for range 2 {
		if again := k.round(now); !again {
			return
		}
	}
}

// round is one look for all trees that wait. It tells whether a second look may end some of them.
func (k *keeper) round(now time.Time) (again bool) {
	k.s.passes.Add(1)
	before := blind.Load()
	found, vanished := k.look()
	for t := range k.trees {
		members, stirred := found[t]
		if !k.vacated(t) {
			members, stirred = append(members, t.cgroup.members()...), true
		}
		if stirred || vanished || blind.Load() != before {
			t.empty = 0
			t.kill(members)
			t.schedule(now)
			continue
		}
		if t.empty++; t.empty < 2 {
			again = again || !t.found()
			t.schedule(now)
			continue
		}
		delete(k.trees, t)
		t.finish()
	}
	return again
}

// vacated tells whether nothing lives in the cgroup of a tree any more. Then it is taken from the tree, but for one in which more is
// to be removed than itself.
func (k *keeper) vacated(t *tree) bool {
	g := t.cgroup
	if g == nil {
		return true
	}
	if k.s.crowd.there(k.s.live.Load()) && g.still() && k.s.cgroups.park(g) {
		t.cgroup = nil
		return true
	}
	err := syscall.Rmdir(g.dir) // finds out by itself
	if err == nil || err == syscall.ENOENT {
		k.s.cgroups.disown(g)
		t.cgroup = nil
		return true
	}
	return !g.populated()
}

func (t *tree) schedule(now time.Time) {
	t.next = now.Add(t.pause)
	t.pause = min(2*t.pause, lastPass)
}
