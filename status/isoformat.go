package status

import (
	"fmt"
	"time"
)

// maxTime is the last time that Python can hold.
var maxTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// Isoformat writes a time as Python's datetime.isoformat does in UTC: 2026-11-29T10:41:00.123456+00:00, without the fraction where
// the microseconds are 0. What is beyond Python's years becomes the nearest time within.
func Isoformat(t time.Time) string { return string(AppendIsoformat(nil, t)) }

// AppendIsoformat appends what [Isoformat] returns.
func AppendIsoformat(b []byte, t time.Time) []byte {
	t = t.UTC()
	switch {
	case t.Year() < 1:
		t = time.Time{}
	case t.After(maxTime):
		t = maxTime
	}
	layout := "2006-01-02T15:04:05.000000+00:00"
	if t.Nanosecond() < 1000 {
		layout = "2006-01-02T15:04:05+00:00"
	}
	return t.AppendFormat(b, layout)
}

// ParseTime reads what [Isoformat] writes, and any RFC 3339 time. Without a zone it is UTC. What lies before the year 1 is no time.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05", s)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("parse time: %q is no isoformat", s)
	}
	if t = t.UTC(); t.Year() < 1 { // which is written as no time
		t = time.Time{}
	}
	return t, nil
}
