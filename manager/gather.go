package manager

import "time"

// How long a tick waits at most for others that fall due just behind it, so that they go out in one round trip. The last of a
// group never waits, and none waits in the hope of one: with few sources nearly all go out on time. While many crawlers start or
// end, each tick waits for the longer time, as the processor is what all wait for: each start has its first tick.
const (
	gatherLimit = 5 * time.Millisecond
	gatherBusy  = 20 * time.Millisecond
)

// nextLookAt is when something of the heap is to be looked at.
func (f *fleet) nextLookAt() mono {
	first := f.heap[0].heapAt
	switch {
	case !f.gathers:
		return first
	case f.bustle.crowded():
		return first + mono(gatherBusy)
	}
	return f.heap.last(first + mono(gatherLimit))
}
