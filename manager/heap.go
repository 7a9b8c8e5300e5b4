package manager

import "container/heap"

// dueHeap orders sources by when they are to be looked at next.
type dueHeap []*source

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].heapAt.Before(h[j].heapAt) }
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

// place puts a source into the heap, or where it now belongs; at a zero time it leaves.
func (h *dueHeap) place(s *source) {
	switch {
	case s.heapAt.IsZero() && s.heapSlot >= 0:
		heap.Remove(h, s.heapSlot)
	case s.heapAt.IsZero():
	case s.heapSlot >= 0:
		heap.Fix(h, s.heapSlot)
	default:
		heap.Push(h, s)
	}
}
