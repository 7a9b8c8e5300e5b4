package schedule

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func cronPlan(t *testing.T, line, zone string) Plan {
	t.Helper()
	p, err := Cron(line, zone, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestIntervalKeepsItsPhase(t *testing.T) {
	t.Parallel()
	p, err := Every(10*time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	anchor := at(t, "2026-01-01T00:00:03Z")
	for after, want := range map[string]string{
		"2026-01-01T00:00:00Z": "2026-01-01T00:00:03Z",
		"2026-01-01T00:00:03Z": "2026-01-01T00:00:13Z",
		"2026-01-01T00:00:14Z": "2026-01-01T00:00:23Z", // the last tick was a second late
		"2026-01-01T05:00:00Z": "2026-01-01T05:00:03Z", // asleep meanwhile
	} {
		if got := p.Next(anchor, at(t, after)); !got.Equal(at(t, want)) {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
}

func TestCronAcrossDST(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, zone, after, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},       // in the gap: at its end
		{"15,30,45 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z"}, // together with it, once
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},        // just behind it
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"},       // first passage
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},       // not the second
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"},     // elapsed time
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"},    //
		{"30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},    //
		{"10 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"}, // a gap of half an hour
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"}, // repeated half hour
		{"30 2 * * *", "Asia/Kolkata", "2026-03-28T12:00:00Z", "2026-03-28T21:00:00Z"},        //
		{"30 0 24 4 *", "Africa/Cairo", "2026-04-01T00:00:00Z", "2026-04-23T22:00:00Z"},       // a day that begins at 01:00
		{"30 * 24 4 *", "Africa/Cairo", "2026-04-01T00:00:00Z", "2026-04-23T22:30:00Z"},       //
		{"0 * * * *", "Australia/Lord_Howe", "2026-10-03T14:30:00Z", "2026-10-03T16:00:00Z"},  // 02:00 is left out
		{"45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"}, // 01:45 is shown twice
		{"0 */2 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T01:00:00Z"},      // a step is not a star
		{"0 0-23 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"},     // nor is the whole range
		{"0 */1 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},      // steps of one are
		{"0 4,* * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},      // and a list that has one
		{"0 6 * * *", "Europe/Berlin", "2040-12-31T06:00:00Z", "2041-01-01T05:00:00Z"},        // leap years have 366 days
		{"0 * * * *", "America/New_York", "2040-12-31T06:00:00Z", "2040-12-31T07:00:00Z"},     //
		{"@daily", "", "2026-03-28T12:00:00Z", "2026-03-29T00:00:00Z"},                        //
		{"15 30 4 * * *", "UTC", "2026-03-28T12:00:00Z", "2026-03-29T04:30:15Z"},              // six fields
	} {
		if got := cronPlan(t, c.line, c.zone).Next(time.Time{}, at(t, c.after)); !got.Equal(at(t, c.want)) {
			t.Errorf("%s in %s after %s: %s, want %s", c.line, c.zone, c.after, got.UTC(), c.want)
		}
	}
}

func TestBadPlans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, zone, want string }{
		{"", "", "cron line"},
		{"every day", "", "cron line"},
		{"61 * * * *", "", "cron line"},
		{"0 0 30 2 *", "", "no such day"},
		{"@\nx", "", `cron line "@\nx": unrecognized descriptor: @ x`},
		{"0 0 \x1b[2J * *", "", `cron line "0 0 \x1b[2J * *": it holds a character that cannot be seen`},
		{", * * * * *", "", "empty list"},
		{"0 , * * *", "", "empty list"},
		{"* * * * *", "Mars/Olympus", "time zone"},
		{"CRON_TZ=Asia/Tokyo 0 0 * * *", "", "time zone"},
		{"@every 0s", "", "at least 1 s"},
		{"@every -5m", "", "at least 1 s"},
		{"@every 1ms", "", "at least 1 s"},
		{"@every 999ms", "", "at least 1 s"},
		{"@every soon", "", "invalid duration"},
		{"@every", "", "cron line"},
		{"@every 100000h", "", "10 years"},
		{"@every 1s", "", ""},
		{"@every 1.5s", "", ""},
	} {
		_, err := Cron(c.line, c.zone, 0)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q in %q: %v, want %q", c.line, c.zone, err, c.want)
		}
	}
	for _, d := range []time.Duration{0, -time.Second, time.Second - 1, MaxInterval + 1} {
		if _, err := Every(d, 0); err == nil {
			t.Errorf("an interval of %v was taken", d)
		}
	}
	if _, err := Every(time.Second, -1); err == nil {
		t.Error("a negative jitter was taken")
	}
	if got := (Plan{}).Next(time.Time{}, time.Now()); !got.IsZero() {
		t.Errorf("no plan is due at %v", got)
	}
}

func TestEveryIsAnInterval(t *testing.T) {
	t.Parallel()
	p := cronPlan(t, "@every 90s", "Europe/Berlin")
	anchor := at(t, "2026-03-29T00:59:00Z")
	if got := p.Next(anchor, anchor); p.IsCron() || !got.Equal(anchor.Add(90*time.Second)) {
		t.Errorf("%v", got)
	}
}

func TestSpreadIsStableAndEven(t *testing.T) {
	t.Parallel()
	p, err := Every(time.Minute, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	due := at(t, "2026-01-01T00:00:00Z")
	var tenths [10]int
	for i := range 10000 {
		d := due.Add(time.Duration(i) * time.Minute)
		s := p.Spread("src", d)
		if s != p.Spread("src", d) {
			t.Fatal("it changes")
		}
		tenths[s/time.Second]++
	}
	for i, n := range tenths {
		if n < 850 || n > 1150 {
			t.Errorf("tenth %d has %d of 10,000", i, n)
		}
	}
}

// Due times of a cron line rise, and each is one that a clock in the zone shows, or the end of a gap.
func TestNextRises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		zone := rapid.SampledFrom([]string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}).Draw(r, "zone")
		line := rapid.SampledFrom([]string{"30 2 * * *", "*/20 1-3 * * *", "0 * * * *", "5 0 29 3 *", "*/7 * * * *"}).Draw(r, "line")
		p := cronPlan(t, line, zone)
		from := time.Unix(rapid.Int64Range(1_760_000_000, 1_800_000_000).Draw(r, "from"), 0)
		for range 50 {
			next := p.Next(time.Time{}, from)
			if !next.After(from) {
				r.Fatalf("%s in %s after %s: %s", line, zone, from.UTC(), next.UTC())
			}
			from = next
		}
	})
}
