package main

import "testing"

func TestTrim(t *testing.T) {
	t.Parallel()
	var tr trim
	for i, step := range []struct {
		calm bool
		held uint64
		due  bool
	}{
		{false, 900, false},
		{true, 900, true}, // at once when it becomes calm
		{true, 550, false},
		{true, 551, true}, // a tenth more than after the last one
		{false, 5000, false},
		{true, 500, true},
	} {
		due := tr.due(step.calm, step.held)
		if due != step.due {
			t.Errorf("step %d: %v", i, due)
		}
		if due {
			tr.least = 500
		}
	}
	if held := heldMemory(); held < 1<<16 || held > 1<<36 {
		t.Errorf("%d bytes are held", held)
	}
}
