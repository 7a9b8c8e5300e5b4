package manager

import "time"

// mono is a moment on the monotonic clock: how long after the beginning of the fleet. The wall clock may be set as it
// likes, the order of these stays. It is a type of its own so that it is never compared with a time of the wall clock.
type mono time.Duration

// moment is one moment on both clocks.
type moment struct {
	mono mono
	wall time.Time // without a monotonic reading: it compares with other times of the wall clock only
}

// clock reads both clocks. Any goroutine may use it.
type clock struct {
	began time.Time            // with a monotonic reading: where mono is zero
	skew  func() time.Duration // added to the wall clock; nil adds nothing
}

// builtInSkew is set in builds for tests of the whole program alone (see clock_skew.go).
var builtInSkew func() time.Duration

func (c clock) now() moment { return c.moment(time.Now()) }

// moment takes what time.Now has returned.
func (c clock) moment(t time.Time) moment {
	m := moment{mono: mono(t.Sub(c.began)), wall: t.Round(0)}
	if c.skew != nil {
		m.wall = m.wall.Add(c.skew())
	}
	return m
}

// horizon bounds how far away a time of the wall clock may be (a pause until the year 9999), so that sums do not overflow.
const horizon = 100 * 365 * 24 * time.Hour

// until is when the wall clock will show a time, if nobody sets it. m is now.
func (m moment) until(wall time.Time) mono {
	return m.mono + mono(min(max(wall.Sub(m.wall), -horizon), horizon))
}

// offset is what the wall clock shows, or showed, where mono is zero. It changes when the wall clock is set.
func (m moment) offset() time.Time { return m.wall.Add(-time.Duration(m.mono)) }

// slack is how far the wall clock may run away from the monotonic one before that counts as set. Reading both is not one
// step, and a daemon that keeps the time moves the wall clock a little all the time.
const slack = 100 * time.Millisecond
