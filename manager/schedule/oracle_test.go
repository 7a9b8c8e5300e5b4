package schedule

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oracle is a cron line once more, slow and obvious: it walks over instants and looks at the clock on the wall. It
// shares nothing with the package.
type oracle struct {
	text                                    string
	second, minute, hour, dom, month, dow   [60]bool
	everyHour, restrictedDom, restrictedDow bool
	shown                                   int64 // the furthest that the clock on the wall has been so far; 0: not looked yet
	due                                     []time.Time
}

func newOracle(text string) *oracle {
	f := strings.Fields(text)
	if len(f) == 5 {
		f = append([]string{"0"}, f...)
	}
	return &oracle{
		text:   text,
		second: values(f[0], 0, 59), minute: values(f[1], 0, 59), hour: values(f[2], 0, 23),
		dom: values(f[3], 1, 31), month: values(f[4], 1, 12), dow: values(f[5], 0, 6),
		everyHour: f[2] == "*", restrictedDom: f[3] != "*", restrictedDow: f[5] != "*",
	}
}

// values reads a field: a list of *, 5, 1-5, each perhaps with a step such as /2.
func values(field string, lowest, highest int) (set [60]bool) {
	for item := range strings.SplitSeq(field, ",") {
		body, step, stepped := strings.Cut(item, "/")
		low, high, ranged := strings.Cut(body, "-")
		first, last, by := lowest, highest, 1
		if body != "*" {
			first = number(low)
			if ranged {
				last = number(high)
			} else if !stepped {
				last = first
			}
		}
		if stepped {
			by = number(step)
		}
		for i := first; i <= last; i += by {
			set[i] = true
		}
	}
	return set
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// matches tells whether the line has what the clock shows, in seconds.
func (o *oracle) matches(wall int64) bool {
	if !o.second[wall%60] || !o.minute[wall/60%60] || !o.hour[wall/3600%24] {
		return false
	}
	day := time.Unix(wall, 0).UTC()
	dom, dow := o.dom[day.Day()], o.dow[day.Weekday()]
	if o.restrictedDom && o.restrictedDow {
		return o.month[day.Month()] && (dom || dow)
	}
	return o.month[day.Month()] && dom && dow
}

// see looks at the clock once, a step after the last look. All are seconds; now is since the Unix epoch.
func (o *oracle) see(now, wall, step int64) {
	due := false
	if o.everyHour {
		due = o.matches(wall)
	} else {
		// Nothing where the clock shows again what it has shown; in spring also all that it left out.
		for w := o.shown + step; w <= wall; w += step {
			due = due || o.matches(w)
		}
	}
	if due {
		o.due = append(o.due, time.Unix(now, 0))
	}
	o.shown = max(o.shown, wall)
}

// walk shows the oracles a clock in the zone from some time after one instant up to another. It begins hours before, so
// that they know what the clock has shown, and what they find due there is forgotten.
func walk(zone *time.Location, after, to time.Time, step time.Duration, oracles ...*oracle) {
	seconds, last := int64(step/time.Second), to.Unix()
	for now := after.Add(-3 * time.Hour).Truncate(time.Minute).Unix(); now <= last; now += seconds {
		_, offset := time.Unix(now, 0).In(zone).Zone()
		wall := now + int64(offset)
		for _, o := range oracles {
			if o.shown == 0 {
				o.shown = wall - seconds
			}
			o.see(now, wall, seconds)
		}
	}
	for _, o := range oracles {
		o.due = slices.DeleteFunc(o.due, func(t time.Time) bool { return !t.After(after) })
	}
}

// failer is a testing.T or a rapid.T.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// agrees compares a plan with what its oracle saw between two instants.
func (o *oracle) agrees(t failer, zone *time.Location, after, to time.Time) {
	t.Helper()
	p, err := Cron(o.text, zone.String(), 0)
	if err != nil {
		if len(o.due) > 0 || !strings.Contains(err.Error(), "no such day") { // such as every 30 February
			t.Fatalf("%v", err)
		}
		return
	}
	from := after
	for _, want := range o.due {
		got := p.Next(time.Time{}, from)
		if !got.Equal(want) {
			t.Fatalf("%q after %v: %v, want %v", o.text, from.In(zone), got.In(zone), want.In(zone))
		}
		from = got
	}
	if got := p.Next(time.Time{}, from); !got.IsZero() && !got.After(to) {
		t.Fatalf("%q after %v: %v, want none until %v", o.text, from.In(zone), got.In(zone), to.In(zone))
	}
}

func TestOracle(t *testing.T) {
	t.Parallel()
	zone := location("Europe/Berlin")
	for _, c := range []struct{ line, after, to, want string }{
		{"*/30 2,3 * * *", "2026-03-28T23:00:00Z", "2026-03-29T10:00:00Z", "01:00 01:30"},
		{"*/30 2,3 * * *", "2026-10-24T22:00:00Z", "2026-10-25T10:00:00Z", "00:00 00:30 02:00 02:30"},
		{"*/30 * * * *", "2026-10-24T23:30:00Z", "2026-10-25T02:00:00Z", "00:00 00:30 01:00 01:30 02:00"},
		{"5 6 13 * 5", "2026-10-11T00:00:00Z", "2026-10-17T00:00:00Z", "04:05 04:05"}, // Tuesday the 13th, Friday the 16th
	} {
		o := newOracle(c.line)
		walk(zone, at(t, c.after), at(t, c.to), time.Minute, o)
		var got []string
		for _, due := range o.due {
			got = append(got, due.UTC().Format("15:04"))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s after %s: %s, want %s", c.line, c.after, s, c.want)
		}
	}
}

func location(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
}
