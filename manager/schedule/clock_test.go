package schedule

import (
	"strings"
	"testing"
	"time"
	"unsafe"
)

// stepped is t as it would have been read had the wall clock been set by d before: the monotonic reading is the same.
// The package time has no way to make one, hence the look into its insides, and the proof that it went well.
func stepped(t *testing.T, when time.Time, d time.Duration) time.Time {
	t.Helper()
	set := when
	*(*uint64)(unsafe.Pointer(&set)) += uint64(int64(d/time.Second)) << 30 // 1 bit, 33 bits of seconds, 30 of nanoseconds
	if set.Sub(when) != 0 || set.Round(0).Sub(when.Round(0)) != d {
		t.Fatal("a time.Time is not made as this test thinks")
	}
	return set
}

func monotonic(t time.Time) bool { return strings.Contains(t.String(), " m=") }

var steps = []time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour, -24 * time.Hour}

func TestIntervalDoesNotNoticeTheWallClock(t *testing.T) {
	t.Parallel()
	p, err := Every(10*time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	anchor := time.Now()
	for _, d := range steps {
		now := stepped(t, anchor.Add(25*time.Second), d)
		got := p.Next(anchor, now)
		if wait := got.Sub(now); wait != 5*time.Second || !monotonic(got) {
			t.Errorf("set by %v: due in %v at %v", d, wait, got)
		}
		if got := p.Next(anchor, stepped(t, anchor.Add(-time.Second), d)); got != anchor {
			t.Errorf("set by %v, before the anchor: %v", d, got)
		}
	}
}

// A time that was stored and read again has no monotonic reading: the wall clock is all there is.
func TestIntervalWithoutMonotonicReading(t *testing.T) {
	t.Parallel()
	p, err := Every(10*time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	anchor := time.Now()
	want := anchor.Add(30 * time.Second)
	for _, from := range []time.Time{anchor, anchor.Round(0)} {
		for _, after := range []time.Time{anchor.Add(25 * time.Second), anchor.Add(25 * time.Second).Round(0)} {
			if got := p.Next(from, after); !got.Equal(want) || monotonic(got) != monotonic(from) {
				t.Errorf("from %v after %v: %v", from, after, got)
			}
		}
	}
	set := stepped(t, anchor.Add(25*time.Second), time.Hour)
	if got := p.Next(anchor.Round(0), set); !got.Equal(anchor.Round(0).Add(time.Hour + 30*time.Second)) {
		t.Errorf("set by an hour: %v", got)
	}
}

func TestCronFollowsTheWallClock(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"* * * * * *", "*/5 * * * *", "* * 0-23 * * *", "30 2 * * *"} {
		p := cronPlan(t, line, "Europe/Berlin")
		for _, d := range steps {
			now := stepped(t, time.Now(), d)
			got, want := p.Next(time.Time{}, now), p.Next(time.Time{}, now.Round(0))
			if got != want || monotonic(got) {
				t.Errorf("%s, set by %v: %v, want %v", line, d, got, want)
			}
		}
	}
}

// Without an anchor an interval has a phase all the same, and rises.
func TestIntervalWithoutAnchor(t *testing.T) {
	t.Parallel()
	p, err := Every(MaxInterval, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := at(t, "2026-01-01T00:00:00Z")
	if got := p.Next(time.Time{}, now); !got.Equal(time.Unix(0, 0).Add(6 * MaxInterval)) {
		t.Errorf("%v", got)
	}
}
