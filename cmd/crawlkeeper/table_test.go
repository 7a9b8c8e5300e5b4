package main

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"crawlkeeper/internal/plain"
)

func TestTableAlignsAndCleans(t *testing.T) {
	t.Parallel()
	tab := newTable("CODE", ">N", "LAST")
	tab.add("日本", 7, "wide")
	tab.add("é́a", 1234, "")
	tab.add("a\x1b[31mb\nc", "-", "tab\there")
	wantText(t, tab.render(view{}),
		"CODE              N  LAST",
		"日本              7  wide",
		"é́a             1234",
		`a\x1b[31mb\nc     -  tab\there`,
	)
}

func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	tab := newTable("A", "B")
	tab.add("one", cell{"a long explanation", red})
	wantText(t, tab.render(view{width: 12}), "A    B", "one  a long…")
	wantText(t, tab.render(view{width: 5, colour: true}), "\x1b[1mA\x1b[0m", "one")
	wantText(t, tab.render(view{width: 12, colour: true}),
		"\x1b[1mA\x1b[0m    \x1b[1mB\x1b[0m", "one  \x1b[31ma long…\x1b[0m")
}

// Whatever stands in a database, a table has as many lines as rows, and they fit.
func TestTableWithAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		})), 3, 3).Draw(t, "cells")
		width := rapid.IntRange(1, 100).Draw(t, "width")
		tab := newTable("A", ">B", "C")
		tab.add(texts[0], texts[1], texts[2])
		text := tab.render(view{width: width})
		if n := strings.Count(text, "\n"); n != 2 {
			t.Fatalf("%d lines: %q", n, text)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if plain.Text(line) != line || textWidth(line) > width {
				t.Fatalf("line %q in %d columns", line, width)
			}
		}
	})
}

func TestRelative(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)
	for _, test := range []struct {
		at   time.Time
		want string
	}{
		{time.Time{}, "-"},
		{now, "now"},
		{now.Add(999 * time.Millisecond), "now"},
		{now.Add(-time.Second), "1 s ago"},
		{now.Add(59 * time.Second), "in 59 s"},
		{now.Add(60 * time.Second), "in 1 min"},
		{now.Add(-59 * time.Minute), "59 min ago"},
		{now.Add(-47 * time.Hour), "47 h ago"},
		{now.Add(48 * time.Hour), "in 2 d"},
		{now.Add(2*time.Hour - 3*time.Second), "in 2 h"},
		{now.Add(13*time.Hour + 20*time.Minute), "in 13 h"},
		{now.Add(59*time.Second + 600*time.Millisecond), "in 1 min"},
		{now.Add(59*time.Minute + 40*time.Second), "in 1 h"},
		{now.Add(47*time.Hour + 40*time.Minute), "in 2 d"},
		{now.Add(-2*time.Hour + 3*time.Second), "1 h ago"},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "never"},
	} {
		if got := relative(now, test.at); got != test.want {
			t.Errorf("%v is %q, want %q", test.at, got, test.want)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	const text = "a\nb\nc\nd\n"
	for _, test := range []struct {
		height int
		want   string
	}{
		{0, text}, // no terminal
		{5, text},
		{4, "a\nb\n… and 2 more\n"},
		{3, "a\n… and 3 more\n"},
	} {
		if got := fit(text, test.height); got != test.want {
			t.Errorf("in %d lines: %q, want %q", test.height, got, test.want)
		}
	}
}
