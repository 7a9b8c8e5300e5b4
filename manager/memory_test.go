package manager

import "testing"

func TestCalm(t *testing.T) {
	t.Parallel()
	var c calm
	for i, look := range []struct {
		starts int64
		want   bool
	}{
		{0, false},
		{bigStart - 1, false},
		{bigStart - 1, false}, // calm, but few
		{bigStart, false},     // enough, but not calm
		{bigStart, true},
		{bigStart, false}, // once
		{bigStart + 1, false},
		{bigStart + 1, false},
		{2 * bigStart, false},
		{2 * bigStart, true}, // many small starts are a big one
	} {
		if got := c.look(look.starts); got != look.want {
			t.Errorf("look %d at %d starts: %v", i, look.starts, got)
		}
	}
}
