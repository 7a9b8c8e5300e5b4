package control

import (
	"testing"
	"time"
)

func FuzzTime(f *testing.F) {
	for _, text := range []string{
		"2026-11-29T10:41:00.123456+00:00", "2026-11-29 10:41", "2026-11-29t10:41:00z", "9999-12-31T23:59:59.999999999-23:59", "0001-01-01T00:00:00+00:00", "2026-11-29T24:00", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseTime(text)
		if err != nil {
			return
		}
		if !inRange(at) || at.Location() != time.UTC {
			t.Errorf("%q is %v", text, at)
		}
		// What goes out again is the same, to the microsecond.
		if back, err := parseTime(formatUntil(at)); err != nil || !back.Equal(at.Truncate(time.Microsecond)) {
			t.Errorf("%q is %v, then %v, %v", text, at, back, err)
		}
	})
}
