package main

import (
	"strconv"
	"time"
)

// none is shown where there is nothing.
const none = "-"

// relative says when something was or will be, seen from now: "3 s ago", "now", "in 4 min". Zero times are none, and those that
// nobody will see are "never".
func relative(now, at time.Time) string {
	if at.IsZero() {
		return none
	}
	if at.Year() >= now.Year()+100 {
		return "never"
	}
	switch d := at.Sub(now); {
	case d.Abs() < time.Second:
		return "now"
	case d > 0:
		return "in " + shortDuration(nearest(d))
	}
	return shortDuration(now.Sub(at)) + " ago"
}

// nearest adds half of a duration's unit, so that a pause of two hours does not end "in 1 h" a second later.
func nearest(d time.Duration) time.Duration {
	switch {
	case d < time.Minute:
		return d + time.Second/2
	case d < time.Hour:
		return d + time.Minute/2
	case d < 2*day:
		return d + time.Hour/2
	}
	return d + day/2
}

const day = 24 * time.Hour

// shortDuration is a duration in its largest unit, cut: "59 s", "3 min", "47 h", "12 d".
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return unit(d, time.Second, "s")
	case d < time.Hour:
		return unit(d, time.Minute, "min")
	case d < 2*day:
		return unit(d, time.Hour, "h")
	}
	return unit(d, day, "d")
}

func unit(d, one time.Duration, name string) string {
	return strconv.FormatInt(int64(d/one), 10) + " " + name
}
