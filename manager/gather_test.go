package manager

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/sql"
)

// Ticks that fall due just behind each other share a round trip. None waits for what is not known to come soon.
func TestTicksThatFallDueTogetherGoOutTogether(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		begins []time.Duration // of the sources, whose ticks then follow every 3 s
		crowd  bool
		want   []time.Duration // when the second ticks went out, counted from 3 s after the beginning
	}{
		"none is near":         {[]time.Duration{0, 12 * ms}, false, []time.Duration{0, 12 * ms}},
		"one is near":          {[]time.Duration{0, 2 * ms}, false, []time.Duration{2 * ms, 2 * ms}},
		"to the span's end":    {[]time.Duration{0, 9 * ms, 10 * ms}, false, []time.Duration{9 * ms, 9 * ms, 10 * ms}},
		"of the next span":     {[]time.Duration{8 * ms, 11 * ms, 13 * ms}, false, []time.Duration{8 * ms, 13 * ms, 13 * ms}},
		"many crawlers start":  {[]time.Duration{0, 4 * ms, 19 * ms, 30 * ms}, true, []time.Duration{20 * ms, 20 * ms, 20 * ms, 50 * ms}},
		"alone in a crowd too": {[]time.Duration{0}, true, []time.Duration{20 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.busy, b.gathers = true, true
				end := b.launch(t.Context())
				defer end()
				if c.crowd {
					b.bustle.moves.Add(manyMoves)
				}
				time.Sleep(time.Duration(b.clock.now().mono.spanEnd() + 1 - b.clock.now().mono))
				began := b.clock.now().mono // where a span begins
				var rows []sql.Source
				for i, after := range c.begins {
					time.Sleep(time.Duration(began) + after - time.Duration(b.clock.now().mono))
					rows = append(rows, row(string(rune('a'+i)), 3))
					b.poll(rows...)
				}
				time.Sleep(time.Second)
				b.sent() // the first ones
				time.Sleep(3 * time.Second)
				var got []time.Duration
				for _, tick := range b.sent() {
					got = append(got, time.Duration(tick.at.mono-began)-3*time.Second)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("went out at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A loop that comes late, when the next span has begun, takes nothing out of the middle of that.
func TestOfASpanAllLeaveTogether(t *testing.T) {
	t.Parallel()
	const ms = mono(time.Millisecond)
	f := &fleet{gathers: true}
	for _, at := range []mono{9 * ms, 10 * ms, 15 * ms} {
		f.heap.place(&source{heapAt: at, heapSlot: -1})
	}
	for now, want := range map[mono]mono{9 * ms: 9 * ms, 10 * ms: 10*ms - 1, 14 * ms: 10*ms - 1, 15 * ms: 15 * ms, 21 * ms: 21 * ms} {
		if got := f.dueUntil(now); got != want {
			t.Errorf("at %d all until %d leave, want %d", now, got, want)
		}
	}
}

func TestSpanEnd(t *testing.T) {
	t.Parallel()
	for at, want := range map[mono]mono{
		0: gatherSpan - 1, 1: gatherSpan - 1, gatherSpan - 1: gatherSpan - 1, gatherSpan: 2*gatherSpan - 1, -1: -1, -gatherSpan: -1,
	} {
		if got := at.spanEnd(); got != want {
			t.Errorf("the span of %d ends at %d, want %d", at, got, want)
		}
	}
}

func TestLastOfTheHeap(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var h dueHeap
		first, want := mono(1000), mono(0)
		for range random.IntN(50) + 1 {
			at := mono(random.IntN(1000))
			h.place(&source{heapAt: at, heapSlot: -1})
			first = min(first, at)
		}
		until := first + mono(random.IntN(100))
		for _, s := range h {
			if s.heapAt <= until {
				want = max(want, s.heapAt)
			}
		}
		if got := h.last(until); got != want {
			t.Fatalf("the last until %d is %d, want %d", until, got, want)
		}
	}
}
