package manager

import "testing"

func TestBustle(t *testing.T) {
	t.Parallel()
	var told []bool
	b := bustle{tell: func(busy bool) { told = append(told, busy) }}
	for i, step := range []struct {
		moves int
		busy  bool // after them
		told  int
	}{
		{manyMoves, true, 0},     // it is busy at first
		{manyMoves - 1, true, 0}, // and stays so until a look finds few moves
		{manyMoves - 1, false, 1},
		{manyMoves, true, 2},
		{0, true, 2},
		{3 * manyMoves, true, 4}, // calm in between
	} {
		for range step.moves {
			b.moved()
		}
		if busy := !b.calm.Load(); busy != step.busy || len(told) != step.told {
			t.Errorf("step %d: busy %v, told %v", i, busy, told)
		}
		b.look()
	}
	for i, busy := range told {
		if busy != (i%2 == 1) {
			t.Errorf("told %v", told)
		}
	}
}
