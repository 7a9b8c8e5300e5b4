package manager

import "time"

// What falls due in the same gatherSpan goes out in one round trip, with the last of it: that one never waits, and none waits in
// the hope of others. Spans begin at whole multiples, so that ticks with the same interval stay together, and wait as long each
// time. While many crawlers start or end, each tick waits for gatherBusy, as the processor is what all wait for: each
// start has its first tick.
const (
	gatherSpan = mono(10 * time.Millisecond)
	gatherBusy = mono(20 * time.Millisecond)
)

// nextLookAt is when something of the heap is to be looked at.
func (f *fleet) nextLookAt() mono {
	first := f.heap[0].heapAt
	switch {
	case !f.gathers:
		return first
	case f.bustle.crowded():
		return first + gatherBusy
	}
	return f.heap.last(first.spanEnd())
}

// dueUntil is up to which time what is due leaves the heap: of a span only all together.
func (f *fleet) dueUntil(now mono) mono {
	switch first := f.heap[0].heapAt; {
	case !f.gathers:
		return now
	case f.bustle.crowded():
		if now < first+gatherBusy {
			return first - 1
		}
		return now
	case f.heap.last(now.spanEnd()) > now:
		return now.spanEnd() - gatherSpan
	}
	return now
}

// spanEnd is the last moment of the gatherSpan in which a moment is.
func (m mono) spanEnd() mono {
	into := m % gatherSpan
	if into < 0 {
		into += gatherSpan
	}
	return m - into + gatherSpan - 1
}
