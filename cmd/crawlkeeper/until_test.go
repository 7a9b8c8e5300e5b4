package main

import (
	"testing"
	"time"
)

func TestParseUntil(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 29, 10, 41, 0, 0, berlin)
	for _, test := range []struct {
		text string
		want time.Time // zero: refused
	}{
		{"90m", now.Add(90 * time.Minute)},
		{"7d", now.AddDate(0, 0, 7)},
		{"2026-12-24", time.Date(2026, 12, 24, 0, 0, 0, 0, berlin)},
		{"2026-12-24T18:00", time.Date(2026, 12, 24, 18, 0, 0, 0, berlin)},
		{"2026-12-24 18:00:30", time.Date(2026, 12, 24, 18, 0, 30, 0, berlin)},
		{"2026-12-24T18:00:00Z", time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)},
		{"2026-12-24T18:00+03:00", time.Date(2026, 12, 24, 15, 0, 0, 0, time.UTC)},
		{"12:00", time.Date(2026, 11, 29, 12, 0, 0, 0, berlin)},
		{"10:41", time.Date(2026, 11, 30, 10, 41, 0, 0, berlin)},
		{"2026-11-29", time.Time{}},
		{"-5m", time.Time{}},
		{"0s", time.Time{}},
		{"soon", time.Time{}},
		{"99999999d", time.Time{}},
		{"d", time.Time{}},
	} {
		got, err := parseUntil(test.text, now)
		if !got.Equal(test.want) || (err != nil) != test.want.IsZero() {
			t.Errorf("%q is %v, %v; want %v", test.text, got, err, test.want)
		}
		if err != nil && exitStatus(err) != exitUsage {
			t.Errorf("%q: exit status %d", test.text, exitStatus(err))
		}
	}
	if got, err := parseUntil("", now); err != nil || !got.IsZero() {
		t.Errorf("nothing is %v, %v", got, err)
	}
}
