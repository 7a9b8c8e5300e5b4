package manager

import (
	"context"
	"time"
)

// How long a tick waits at most for others that fall due just behind it. With a thousand ticks a second half of them wait for a
// millisecond at most; with fewer most do not wait at all, as the last of a group never does. While many crawlers start, each of
// which gets its first tick, it is longer: the processor is what these wait for.
const (
	gatherLimit = 3 * time.Millisecond
	gatherBusy  = 20 * time.Millisecond
)

// gather waits while it is known that another tick falls due soon, so that they go out in one round trip. It never waits in the
// hope of one, and not where something else waits: a start, or who asked for a tick.
func (l *lists) gather(ctx context.Context) {
	most := gatherLimit
	if l.busy != nil && l.busy() {
		most = gatherBusy
	}
	if l.soon == nil || l.soon() > most {
		return
	}
	limit := time.NewTimer(most)
	defer limit.Stop()
	for until := time.Now().Add(most); l.patient() && l.soon() <= time.Until(until); {
		select {
		case <-l.wake:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// patient tells whether all that waits are ticks of the schedule.
func (l *lists) patient() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range l.ops {
		if op.group.done == nil || len(op.group.pushes) > 0 && op.group.pushes[0].rule == ruleNow {
			return false
		}
	}
	return true
}
