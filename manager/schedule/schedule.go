package schedule

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode"

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

// Every is a plan of equal intervals. It refuses what is shorter than a second, or absurdly long.
func Every(interval, jitter time.Duration) (Plan, error) {
	if interval < time.Second || interval > MaxInterval {
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
	if text, ok := strings.CutPrefix(line, "@every "); ok {
		return everyLine(line, text, jitter)
	}
	if strings.ContainsFunc(line, invisible) { // the library's errors repeat the line as it is, also its line ends
		return Plan{}, fmt.Errorf("cron line %q: it holds a character that cannot be seen", line)
	}
	parsed, err := parser.Parse(line)
	if err != nil {
		return Plan{}, fmt.Errorf("cron line %q: %s", line, strings.Join(strings.Fields(err.Error()), " "))
	}
	if s, ok := parsed.(*cron.SpecSchedule); ok {
		if slices.Contains([]uint64{s.Second, s.Minute, s.Hour, s.Dom, s.Month, s.Dow}, 0) {
			return Plan{}, fmt.Errorf("cron line %q: a field is an empty list", line) // Next would try every second of five years
		}
		p := Plan{cron: s, zone: loc, jitter: jitter}
		if p.Next(time.Time{}, time.Unix(0, 0)).IsZero() {
			return Plan{}, fmt.Errorf("cron line %q: no such day exists", line)
		}
		return p, nil
	}
	return Plan{}, fmt.Errorf("cron line %q: not understood", line)
}

// invisible characters stand in no cron line; those that part its fields are seen.
func invisible(r rune) bool { return !unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// everyLine reads an interval without robfig/cron, which makes a second of everything shorter, and of what is negative.
func everyLine(line, text string, jitter time.Duration) (Plan, error) {
	interval, err := time.ParseDuration(text)
	if err != nil {
		return Plan{}, fmt.Errorf("cron line %q: %w", line, err)
	}
	if interval < time.Second {
		return Plan{}, fmt.Errorf("cron line %q: an interval is at least 1 s", line)
	}
	return Every(interval, jitter)
}

func checkJitter(jitter time.Duration) error {
	if jitter < 0 || jitter > 24*time.Hour {
		return fmt.Errorf("a jitter of %d s is not between 0 and 86400", int64(jitter/time.Second))
	}
	return nil
}

// IsCron tells whether due times follow the calendar, and not an anchor.
func (p Plan) IsCron() bool { return p.cron != nil }

// Next is the first due time after the given one, zero where there is none. An interval counts from the anchor, which is
// due itself; it keeps the anchor's monotonic reading, and a zero anchor means the Unix epoch. A cron line does not look
// at the anchor, and its due times have no monotonic reading.
func (p Plan) Next(anchor, after time.Time) time.Time {
	switch {
	case p.interval > 0:
		if anchor.IsZero() {
			anchor = time.Unix(0, 0) // a Duration does not reach back to the year 1
		}
		if after.Before(anchor) {
			return anchor
		}
		return anchor.Add((after.Sub(anchor)/p.interval + 1) * p.interval)
	case p.cron == nil:
		return time.Time{}
	}
	return p.nextOnTheWall(after)
}

// starBit marks a field that was given as `*` (robfig/cron sets it).
const starBit = 1 << 63

// nextOnTheWall goes from one change of the zone's clocks to the next. Between two of them the clock on the wall runs
// evenly, so that robfig/cron can be asked as if it were UTC. (In the zone itself it loses days that begin at 01:00.)
func (p Plan) nextOnTheWall(after time.Time) time.Time {
	everyHour := p.cron.Hour&starBit != 0
	from := after.In(p.zone).Add(1) // the earliest that it may be; In drops the monotonic reading
	for {
		if again := repeated(from); again > 0 && !everyHour {
			from = from.Add(again)
			continue
		}
		wall := onTheWall(from)
		match := p.cron.Next(wall.Add(-1))
		if match.IsZero() {
			return time.Time{}
		}
		next := from.Add(match.Sub(wall))
		end := changes(from)
		switch {
		case end.IsZero() || next.Before(end):
			return next
		case !everyHour && match.Before(onTheWall(end)): // the gap of spring leaves it out
			return end
		}
		from = end
	}
}

// changes is when the zone's clocks are set next after t, or a time before at which they stay as they are; zero for never.
func changes(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		// Go's rules for the years after a zone's table end each year after 365 days: on the last day of a leap year
		// that is in the past. The clocks stay as they are until the year ends.
		end = t.Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return end
}

// repeated is for how long, from t on, the clock on the wall shows what it has shown before it was last set.
func repeated(t time.Time) time.Duration {
	start, _ := t.ZoneBounds()
	if start.IsZero() {
		return 0
	}
	_, before := start.Add(-1).Zone()
	_, now := t.Zone()
	return start.Add(time.Duration(before-now) * time.Second).Sub(t)
}

// onTheWall is the time that a clock in t's zone shows, as if it were UTC.
func onTheWall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
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
