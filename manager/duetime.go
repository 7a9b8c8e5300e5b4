package manager

import (
	"math"
	"time"
)

// dueTime is when a source is due.
type dueTime struct {
	// wall is its name: ticks bear it, and the server knows by it what went out before. An interval counts it from what
	// the wall clock showed at the anchor, whatever became of that clock since: so no two are the same.
	wall time.Time
	// at is when it comes. A regular time of a cron line has none: it comes when the wall clock shows its name.
	at     mono
	onWall bool
}

// noTime is after all others.
const noTime mono = math.MaxInt64

// dueStep is the least by which two due times differ where they are written down.
const dueStep = time.Microsecond

// comes is when it comes, as the clocks stand now.
func (d dueTime) comes(now moment) mono {
	if d.onWall {
		return now.until(d.wall)
	}
	return d.at
}

// shown is what the wall clock shows when it comes, if it is not set again. Its name, but for an interval after the
// wall clock was set.
func (d dueTime) shown(offset time.Time) time.Time {
	if d.onWall || d.at == noTime {
		return d.wall
	}
	if wall := offset.Add(time.Duration(d.at)); wall.Sub(d.wall).Abs() > slack {
		return wall
	}
	return d.wall
}

// goesOut is when its next tick is to go out: when it is due, and the jitter of that.
func (s *source) goesOut(now moment) mono {
	at := s.due.comes(now)
	if at == noTime {
		return noTime
	}
	return at + mono(s.plan.Spread(s.code, s.due.wall))
}

// named is the due time of that name.
func (s *source) named(wall time.Time, now moment) dueTime {
	switch {
	case s.plan.IsCron():
		return dueTime{wall: wall, onWall: true}
	case s.anchor.wall.IsZero():
		return dueTime{wall: wall, at: now.until(wall)}
	}
	return dueTime{wall: wall, at: s.anchor.mono + mono(wall.Sub(s.anchor.wall))}
}

// nextDue is the first regular due time after now. One of a cron line is also past all that went out, however the clock
// was set.
func (s *source) nextDue(now moment) dueTime {
	after := s.anchor.wall.Add(time.Duration(now.mono - s.anchor.mono))
	if s.plan.IsCron() {
		after = latest(now.wall, s.lastDue)
	}
	next := s.plan.Next(s.anchor.wall, after)
	if next.IsZero() {
		return dueTime{wall: now.wall, at: noTime} // the status has a time all the same
	}
	return s.named(next, now)
}

// dueAtOnce makes a source due that need not wait for its regular time.
func (s *source) dueAtOnce(now moment) dueTime {
	d := dueTime{wall: now.wall, at: now.mono}
	if s.plan.IsCron() && !d.wall.After(s.lastDue) { // the clock was set back: the server refuses what is not past the last
		d.wall = s.lastDue.Add(dueStep)
	}
	return d
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// noteStep places all sources anew when the wall clock was set, or has run away from the monotonic one.
func (f *fleet) noteStep(now moment) {
	by := now.offset().Sub(f.offset)
	if by.Abs() <= slack {
		return
	}
	f.offset = now.offset()
	if by.Abs() >= time.Second {
		f.logger.Warn("the wall clock was set, or the machine slept: cron lines and pauses follow it, intervals do not", "seconds", by.Round(time.Millisecond).Seconds())
	}
	for _, s := range f.sources {
		if s.due.onWall { // what a jump forward had left out comes again after a jump back
			if next := s.nextDue(now); next.wall.Before(s.due.wall) {
				s.due = next
			}
		}
		f.place(s, now)
	}
}
