package main

import (
	"strconv"
	"strings"
	"time"
)

// untilLayouts are the ways in which people write a time.
var untilLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
}

// clockLayout is a time of day.
const clockLayout = "15:04"

// parseUntil reads the end of a pause: nothing, a duration from now, or a time, which without a zone is one of now's. A time
// of day is the next one. The end must lie ahead.
func parseUntil(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	until, ok := readUntil(strings.TrimSpace(text), now)
	switch {
	case !ok:
		return time.Time{}, usagef("--until %q is neither a duration like 90m nor a time like 2026-11-29T10:41", text)
	case !until.After(now):
		return time.Time{}, usagef("--until %q is past", text)
	case until.Year() > 9999:
		return time.Time{}, usagef("--until %q is too far ahead; leave it out for a pause without end", text)
	}
	return until, nil
}

func readUntil(text string, now time.Time) (time.Time, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return now.AddDate(0, 0, int(n)), err == nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), true
	}
	if clock, err := time.Parse(clockLayout, text); err == nil {
		at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, now.Location())
		if !at.After(now) {
			at = at.AddDate(0, 0, 1)
		}
		return at, true
	}
	text = strings.Replace(text, " ", "T", 1)
	for _, layout := range untilLayouts {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
