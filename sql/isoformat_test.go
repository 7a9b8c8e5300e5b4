package sql

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIsoformat(t *testing.T) {
	t.Parallel()
	const zoned, naive, date = "timestamp with time zone", "timestamp without time zone", "date"
	for _, c := range []struct{ text, typeName, want string }{
		{"", zoned, ""},
		{"2026-11-29 10:41:00.123456+00", zoned, "2026-11-29T10:41:00.123456+00:00"},
		{"2026-11-29 10:41:00+00", zoned, "2026-11-29T10:41:00+00:00"},
		{"2026-11-29 10:41:00.5+00", zoned, "2026-11-29T10:41:00.500000+00:00"},
		{"2026-11-29 10:41:00.000001+00", zoned, "2026-11-29T10:41:00.000001+00:00"},
		{"2026-11-29 12:11:00+05:30", zoned, "2026-11-29T06:41:00+00:00"},
		{"1880-01-01 00:00:00+00:19:32", zoned, "1879-12-31T23:40:28+00:00"},
		{"2026-11-29 10:41:00", naive, "2026-11-29T10:41:00"},
		{"2026-11-29 10:41:00.12", naive, "2026-11-29T10:41:00.120000"},
		{"2026-11-29", date, "2026-11-29"},
		{"0001-01-01", date, "0001-01-01"},
		{"infinity", zoned, "9999-12-31T23:59:59.999999+00:00"},
		{"-infinity", zoned, "0001-01-01T00:00:00+00:00"},
		{"infinity", naive, "9999-12-31T23:59:59.999999"},
		{"-infinity", naive, "0001-01-01T00:00:00"},
		{"infinity", date, "9999-12-31"},
		{"-infinity", date, "0001-01-01"},
		{"0044-03-15 BC", date, "0001-01-01"},
		{"0044-03-15 12:00:00 BC", naive, "0001-01-01T00:00:00"},
		{"0044-03-15 12:00:00+00 BC", zoned, "0001-01-01T00:00:00+00:00"},
		{"12026-11-29 10:41:00+00", zoned, "9999-12-31T23:59:59.999999+00:00"},
		{"12026-11-29", date, "9999-12-31"},
		{"9999-12-31 23:30:00-01", zoned, "9999-12-31T23:59:59.999999+00:00"},
		{"0001-01-01 00:00:00+01", zoned, "0001-01-01T00:00:00+00:00"},
		{"soon", "text", "soon"},
	} {
		if got := isoformat(c.text, c.typeName); got != c.want {
			t.Errorf("isoformat(%q, %q) = %q, want %q", c.text, c.typeName, got, c.want)
		}
	}
}

// postgresText writes a time as a session with ISO dates in UTC does: no zeros at the end of the fraction.
func postgresText(at time.Time) string {
	text := at.Format("2006-01-02 15:04:05.000000")
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

func TestIsoformatOfAnyTime(t *testing.T) {
	t.Parallel()
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMicro()
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(first, last).Draw(t, "at")).UTC()
		if rapid.Bool().Draw(t, "whole") {
			at = at.Truncate(time.Second)
		}
		text := postgresText(at)
		if at.Nanosecond() == 0 {
			text = at.Format("2006-01-02 15:04:05") // the zeros that were cut above may have been the seconds'
		}
		naive, zoned := isoformat(text, "timestamp without time zone"), isoformat(text+"+00", "timestamp with time zone")
		if zoned != naive+"+00:00" {
			t.Fatalf("%q: with zone %q, without %q", text, zoned, naive)
		}
		if n := len(naive); n != len("2026-11-29T10:41:00") && n != len("2026-11-29T10:41:00.123456") {
			t.Fatalf("%q became %q", text, naive)
		}
		back, err := time.Parse("2006-01-02T15:04:05.999999-07:00", zoned)
		if err != nil || !back.Equal(at) {
			t.Fatalf("%q became %q, which is %v (%v)", text, zoned, back, err)
		}
	})
}

func FuzzIsoformat(f *testing.F) {
	for _, seed := range []string{"", "2026-11-29", "2026-11-29 10:41:00.5+00", "infinity", "0044-03-15 BC", "+", "-", "99999-1-1"} {
		f.Add(seed, "date")
	}
	f.Fuzz(func(t *testing.T, text, typeName string) {
		got := isoformat(text, typeName)
		if (got == "") != (text == "") {
			t.Fatalf("isoformat(%q, %q) = %q", text, typeName, got)
		}
		// What it has written it leaves alone.
		if again := isoformat(got, typeName); again != got {
			t.Fatalf("isoformat(%q, %q) = %q, then %q", text, typeName, got, again)
		}
	})
}
