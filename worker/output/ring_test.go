package output

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The ring keeps the newest lines that fit, in their order, whatever their lengths are.
func TestRingAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r ring
		var model []Line
		length := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 2*ringBytes))
		for i := range rapid.IntRange(0, 120).Draw(t, "lines") {
			l := Line{
				Stream: rapid.SampledFrom([]string{Stdout, Stderr}).Draw(t, "stream"),
				At:     time.Unix(int64(i), 5),
				Text:   bytes.Repeat([]byte{byte(i)}, length.Draw(t, "length")),
				Cut:    rapid.Bool().Draw(t, "cut"),
			}
			r.add(l.Text, l.Stream == Stderr, l.Cut, l.At)
			if len(l.Text) > ringMax {
				l.Text, l.Cut = l.Text[:ringMax], true
			}
			model = append(model, l)
			if len(r.buf) > ringBytes || r.used > len(r.buf) {
				t.Fatalf("%d of %d bytes used", r.used, len(r.buf))
			}
		}
		room, from := ringBytes, len(model)
		for from > 0 && room >= ringHeader+len(model[from-1].Text) {
			from--
			room -= ringHeader + len(model[from].Text)
		}
		since := rapid.IntRange(0, len(model)).Draw(t, "since")
		n := rapid.SampledFrom([]int{0, 1, 5, math.MaxInt}).Draw(t, "n")
		want := model[max(from, since, len(model)-min(n, len(model))):]
		if got := r.last(n, uint64(since)); len(got)+len(want) > 0 && !cmp.Equal(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}

// A source that is silent costs nothing, one that says little costs little.
func TestRingGrowsAsNeeded(t *testing.T) {
	t.Parallel()
	var r ring
	if r.buf != nil || r.last(10, 0) != nil {
		t.Fatal("a new ring holds something")
	}
	r.add([]byte("one line"), false, false, time.Now())
	if len(r.buf) != ringStart {
		t.Errorf("one line costs %d bytes", len(r.buf))
	}
}
