package manager

import "container/heap"

// dueHeap orders sources by when they are to be looked at next.
type dueHeap []*source

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].heapAt < h[j].heapAt }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapSlot, h[j].heapSlot = i, j
}

// Push and Pop are for container/heap alone.
func (h *dueHeap) Push(x any) {
	s := x.(*source)
	s.heapSlot = len(*h)
	*h = append(*h, s)
}

func (h *dueHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.heapSlot = -1
	return s
}

// place puts a source into the heap, or where it now belongs.
func (h *dueHeap) place(s *source) {
	if s.heapSlot >= 0 {
		heap.Fix(h, s.heapSlot)
	} else {
		heap.Push(h, s)
	}
}

// drop takes a source out, if it is in.
func (h *dueHeap) drop(s *source) {
	if s.heapSlot >= 0 {
		heap.Remove(h, s.heapSlot)
	}
}

// last is the latest time in the heap up to a limit, before which there is one at least.
func (h dueHeap) last(until mono) mono {
	return h.lastBelow(0, until)
}

// lastBelow looks at a place and those below it, which are not before it.
func (h dueHeap) lastBelow(i int, until mono) mono {
	if i >= len(h) || h[i].heapAt > until {
		return 0
	}
	return max(h[i].heapAt, h.lastBelow(2*i+1, until), h.lastBelow(2*i+2, until))
}
