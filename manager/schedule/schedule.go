package schedule

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// MaxInterval bounds an interval: more is a mistake in the unit.
const MaxInterval = 10 * 365 * 24 * time.Hour

// Plan says when a source is due. The zero Plan is never.
type Plan struct {
	interval time.Duration
	cron     *cron.SpecSchedule
	zone     *time.Location
	jitter   time.Duration
}

var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Every is a plan of equal intervals. It refuses what is not positive, or absurdly long.
func Every(interval, jitter time.Duration) (Plan, error) {
	if interval <= 0 || interval > MaxInterval {
		return Plan{}, fmt.Errorf("an interval of %d s is not between 1 s and 10 years", int64(interval/time.Second))
	}
	if err := checkJitter(jitter); err != nil {
		return Plan{}, err
	}
	return Plan{interval: interval, jitter: jitter}, nil
}

// Cron reads a cron line of five or six fields (the first is then seconds), or @hourly and its kin, or @every 90s. An
// empty zone is UTC.
func Cron(line, zone string, jitter time.Duration) (Plan, error) {
	if err := checkJitter(jitter); err != nil {
		return Plan{}, err
	}
	if strings.Contains(line, "TZ=") {
		return Plan{}, fmt.Errorf("the time zone belongs into the column timezone, not into the line %q", line)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Plan{}, fmt.Errorf("unknown time zone %q", zone)
	}
	parsed, err := parser.Parse(line)
	if err != nil {
		return Plan{}, fmt.Errorf("cron line %q: %w", line, err)
	}
	switch s := parsed.(type) {
	case cron.ConstantDelaySchedule:
		return Every(s.Delay, jitter)
	case *cron.SpecSchedule:
		p := Plan{cron: s, zone: loc, jitter: jitter}
		if p.Next(time.Time{}, time.Unix(0, 0)).IsZero() {
			return Plan{}, fmt.Errorf("cron line %q: no such day exists", line)
		}
		return p, nil
	}
	return Plan{}, fmt.Errorf("cron line %q: not understood", line)
}

func checkJitter(jitter time.Duration) error {
	if jitter < 0 || jitter > 24*time.Hour {
		return fmt.Errorf("a jitter of %d s is not between 0 and 86400", int64(jitter/time.Second))
	}
	return nil
}

// IsCron tells whether due times follow the calendar, and not an anchor.
func (p Plan) IsCron() bool { return p.cron != nil }

// Next is the first due time after the given one, zero where there is none. An interval counts from the anchor.
func (p Plan) Next(anchor, after time.Time) time.Time {
	switch {
	case p.interval > 0:
		if after.Before(anchor) {
			return anchor
		}
		return anchor.Add((after.Sub(anchor)/p.interval + 1) * p.interval)
	case p.cron == nil:
		return time.Time{}
	case p.cron.Hour&starBit != 0:
		return p.cron.Next(after.In(p.zone))
	}
	return p.nextOnTheWall(after)
}

// starBit marks a field that was given as `*` (robfig/cron sets it).
const starBit = 1 << 63

// nextOnTheWall looks for the next match as the clock on the wall shows it, and only then for the instant at which
// that is: the gap of spring has none, the repeated hour of autumn two.
func (p Plan) nextOnTheWall(after time.Time) time.Time {
	wall := onTheWall(after, p.zone)
	// Behind the gap of spring the wall shows an hour more than what was looked for last.
	wall = wall.Add(-3 * time.Hour)
	for {
		wall = p.cron.Next(wall)
		if wall.IsZero() {
			return time.Time{}
		}
		if t := instant(wall, p.zone); t.After(after) {
			return t
		}
	}
}

// onTheWall is the time that a clock in the zone shows, as if it were UTC.
func onTheWall(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant is when a clock in the zone shows wall for the first time, or the end of the gap where it never does.
func instant(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	start, end := t.ZoneBounds()
	switch shown := onTheWall(t, zone); {
	case shown.After(wall): // in the gap, and t already behind it
		return start
	case shown.Before(wall):
		return end
	}
	if start.IsZero() {
		return t
	}
	_, before := start.Add(-time.Second).Zone()
	if first := wall.Add(-time.Duration(before) * time.Second).In(zone); first.Before(start) && onTheWall(first, zone).Equal(wall) {
		return first
	}
	return t
}

// Spread is what the jitter adds to a due time: evenly spread over sources, and the same whenever it is asked for the
// same source and due time.
func (p Plan) Spread(source string, due time.Time) time.Duration {
	if p.jitter == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%d", source, due.UnixMicro())
	x := h.Sum64() // the last bytes move FNV's high bits too little: mix them (splitmix64's finalizer)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return time.Duration(float64(p.jitter) * (float64(x>>11) / (1 << 53)))
}
