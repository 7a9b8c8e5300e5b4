package chaos

import (
	"strings"
	"testing"
	"time"

	"crawlkeeper/manager/schedule"
)

func mustPlan(t *testing.T, line string, interval, jitter time.Duration) schedule.Plan {
	t.Helper()
	plan, err := planOf(line, interval, jitter)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestTimetablesCanBeRead(t *testing.T) {
	t.Parallel()
	lines := 0
	for _, line := range timetables {
		jitter := time.Duration(line.jitter * float64(time.Second))
		plan := mustPlan(t, line.schedule, 3*time.Second, jitter)
		if plan.IsCron() {
			lines++
		}
		if due := time.Unix(960, 0); jitter > 0 && following(plan, due).Sub(due) <= 2*jitter {
			t.Errorf("%q: a tick that is late may meet the next", line.schedule)
		}
	}
	if lines == 0 {
		t.Error("no line follows the wall clock")
	}
}

func TestWhatIsLeftOutBetweenTwoTicks(t *testing.T) {
	t.Parallel()
	const s = time.Second
	began := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		line        string
		before, due time.Duration
		why         string
	}{
		{"an interval", "", 0, 2 * s, ""},
		{"a new anchor", "", 0, 2900 * time.Millisecond, ""},
		{"an earlier anchor", "", 0, 500 * time.Millisecond, ""},
		{"an interval without one", "", 0, 4 * s, "4s lie between"},
		{"an interval in words", "@every 2s", 0, 2 * s, ""},
		{"an interval in words without one", "@every 2s", s / 2, 4*s + s/2, "4s lie between"},
		{"a cron line", "*/2 * * * * *", 2 * s, 4 * s, ""},
		{"a cron line after a time by hand", "*/2 * * * * *", 2500 * time.Millisecond, 4 * s, ""},
		{"a cron line without one", "*/2 * * * * *", 2 * s, 6 * s, "its line says"},
		{"a cron line with one too many", "*/2 * * * * *", 2 * s, 3 * s, "its line says"},
		{"a cron line that is longer between minutes", "*/7 * * * * *", 56 * s, 60 * s, ""},
	} {
		plan := mustPlan(t, c.line, 2*s, 0)
		why := leftOut(plan, began.Add(c.before), began.Add(c.due))
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, not %q", c.name, why, c.why)
		}
	}
}

func TestLagFollowsTheClockOfALine(t *testing.T) {
	t.Parallel()
	const s = time.Second
	began := time.Now()
	r := &round{began: began, skews: []skew{{10 * s, time.Minute}, {20 * s, 0}}}
	line, jittery := mustPlan(t, "*/2 * * * * *", 0, 0), mustPlan(t, "*/2 * * * * *", 0, s)
	interval := mustPlan(t, "", 2*s, 0)
	at := func(taken, due time.Duration) tick {
		return tick{code: "s04", taken: began.Add(taken), Due: began.Add(due)}
	}
	spread := jittery.Spread("s04", began.Add(5*s))
	if spread == 0 {
		t.Fatal("the jitter adds nothing")
	}
	for name, c := range map[string]struct{ is, want time.Duration }{
		"as the clock is":                    {r.lag(at(5*s, 4*s), line), s},
		"while it was set":                   {r.lag(at(15*s, 74*s), line), s},
		"of before it was set":               {r.lag(at(15*s, 14*s), line), time.Minute + s},
		"of what it showed once":             {r.lag(at(25*s, 84*s), line), s - time.Minute},
		"with a jitter":                      {r.lag(at(6*s, 5*s), jittery), s - spread},
		"an interval keeps what it was once": {r.lag(at(25*s, 84*s), interval), s},
	} {
		if c.is != c.want {
			t.Errorf("%s: %v, not %v", name, c.is, c.want)
		}
	}
}

func TestWhatTheClockHasShown(t *testing.T) {
	t.Parallel()
	const s = time.Second
	r := &round{skews: []skew{{10 * s, -time.Hour}, {12 * s, 0}, {20 * s, time.Minute}, {25 * s, 0}}}
	for at, by := range map[time.Duration]time.Duration{5 * s: 0, 11 * s: -time.Hour, 15 * s: 0, 22 * s: time.Minute, 30 * s: 0} {
		if got := r.skewAt(at); got != by {
			t.Errorf("at %v: %v, not %v", at, got, by)
		}
	}
	if r.clockSetBetween(13*s, 19*s) || !r.clockSetBetween(11*s, 13*s) {
		t.Error("it is not known when the clock was set")
	}
	for now, ahead := range map[time.Duration]bool{84 * s: true, 86 * s: false} {
		if r.wasAhead(now) != ahead {
			t.Errorf("at %v: ahead %t", now, !ahead)
		}
	}
	if r.skews = r.skews[:2]; r.wasAhead(30 * s) {
		t.Error("a clock that was set back was ahead")
	}
}

// TestDueTimesOfALineGoOn: those of an interval may go back, those of a cron line only where Redis lost its data.
func TestDueTimesOfALineGoOn(t *testing.T) {
	t.Parallel()
	const s = time.Second
	began := time.Now()
	for _, c := range []struct {
		name     string
		line     string
		due      []time.Duration
		lost     []time.Duration
		forgot   []time.Duration
		reshaped bool
		broken   string
	}{
		{name: "on and on", line: "*/2 * * * * *", due: []time.Duration{2 * s, 4 * s, 6 * s}},
		{name: "back", line: "*/2 * * * * *", due: []time.Duration{2 * s, 600 * s, 6 * s}, broken: "3 due times of a cron line go on"},
		{name: "back behind more than one", line: "*/2 * * * * *", due: []time.Duration{600 * s, 4 * s, 6 * s}, broken: "3 due times of a cron line go on"},
		{name: "twice", line: "*/2 * * * * *", due: []time.Duration{2 * s, 4 * s, 4 * s}, broken: "3 no due time goes out twice"},
		{name: "back, as Redis lost its data", line: "*/2 * * * * *", due: []time.Duration{2 * s, 600 * s, 6 * s}, lost: []time.Duration{2500 * time.Millisecond}},
		{name: "back again, long after Redis lost its data", line: "*/2 * * * * *", due: []time.Duration{2 * s, 600 * s, 6 * s, 8 * s, 10 * s, 12 * s, 14 * s, 16 * s, 4 * s}, lost: []time.Duration{2500 * time.Millisecond}, broken: "3 due times of a cron line go on"},
		{name: "back, as its due time was deleted", line: "*/2 * * * * *", due: []time.Duration{2 * s, 600 * s, 6 * s}, forgot: []time.Duration{2500 * time.Millisecond}},
		{name: "an interval's twice, as those of lines were deleted", line: "@every 2s", due: []time.Duration{2 * s, 2 * s}, forgot: []time.Duration{1500 * time.Millisecond}, broken: "3 no due time goes out twice"},
		{name: "back, and Redis lost its data later", line: "*/2 * * * * *", due: []time.Duration{2 * s, 600 * s, 6 * s}, lost: []time.Duration{20 * s}, broken: "3 due times of a cron line go on"},
		{name: "back, of a source that was made anew", line: "*/2 * * * * *", due: []time.Duration{2 * s, 600 * s, 6 * s}, reshaped: true},
		{name: "an interval goes back", line: "@every 2s", due: []time.Duration{2 * s, 600 * s, 6 * s}},
	} {
		r := &round{t: t, began: began, report: newReport(), told: make(map[string]bool), lost: c.lost, forgot: c.forgot, reshaped: map[string]bool{"s04": c.reshaped}}
		var ticks []tick
		for i, due := range c.due {
			ticks = append(ticks, tick{code: "s04", taken: began.Add(time.Duration(i+1) * s), Trigger: "schedule", Due: began.Add(due)})
		}
		r.checkTwice(ticks, map[string]schedule.Plan{"s04": mustPlan(t, c.line, 0, 0)})
		broken := strings.Join(r.report.broken, "\n")
		if (broken == "") != (c.broken == "") || !strings.Contains(broken, c.broken) {
			t.Errorf("%s: %q, not %q", c.name, broken, c.broken)
		}
	}
}
