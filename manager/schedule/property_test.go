package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var zones = []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}

// odd zones: midnight is left out (Cairo, Havana), the clocks go back at midnight to the day before (Santiago), and
// offsets that are no whole hours (Chatham).
var odd = []string{"Africa/Cairo", "America/Havana", "America/Santiago", "Pacific/Chatham"}

var (
	decade    = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	decadeEnd = decade.AddDate(10, 0, 0)
)

func TestTenYearsMinuteByMinute(t *testing.T) {
	t.Parallel()
	lines := []string{"*/20 1-3 1-7,25-31 * 0", "45 * * * 0"}
	for _, name := range zones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone := location(name)
			var oracles []*oracle
			for _, line := range lines {
				oracles = append(oracles, newOracle(line))
			}
			walk(zone, decade, decadeEnd, time.Minute, oracles...)
			for _, o := range oracles {
				o.agrees(t, zone, decade, decadeEnd)
			}
		})
	}
}

// Random lines around a change of the clocks, or anywhere in 25 years: some are behind the tables of the zones, which end
// with 2037, and follow their rules.
func TestMinuteByMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		zone := location(rapid.SampledFrom(slices.Concat(zones, odd)).Draw(r, "zone"))
		after := near(r, zone, 30*time.Hour)
		to := after.Add(48 * time.Hour)
		o := newOracle(lineNear(r, after.Add(24*time.Hour).In(zone)))
		walk(zone, after, to, time.Minute, o)
		o.agrees(r, zone, after, to)
	})
}

func TestSecondBySecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		zone := location(rapid.SampledFrom(slices.Concat(zones, odd)).Draw(r, "zone"))
		after := near(r, zone, 3*time.Hour).Add(time.Duration(rapid.Int64Range(0, 999_999_999).Draw(r, "ns")))
		to := after.Add(3 * time.Hour)
		second := rapid.SampledFrom([]string{"0", "30", "*/20", "59", "1,2", "10-50/15"}).Draw(r, "second")
		o := newOracle(second + " " + lineNear(r, after.Add(time.Hour).In(zone)))
		walk(zone, after, to, time.Second, o)
		o.agrees(r, zone, after, to)
	})
}

// near is an instant before a change of the clocks, mostly; whole minutes.
func near(r *rapid.T, zone *time.Location, before time.Duration) time.Time {
	minutes := rapid.Int64Range(0, 25*365*24*60).Draw(r, "minutes")
	t := decade.Add(time.Duration(minutes) * time.Minute)
	_, change := t.In(zone).ZoneBounds()
	if change.IsZero() || rapid.IntRange(0, 9).Draw(r, "anywhere") == 0 {
		return t
	}
	if rapid.IntRange(0, 9).Draw(r, "leap year's end") == 0 {
		change = time.Date(2040, 12, 31, 12, 0, 0, 0, time.UTC)
	}
	return change.Add(-time.Duration(rapid.Int64Range(0, int64(before/time.Minute)).Draw(r, "before")) * time.Minute)
}

// lineNear is a cron line of five fields that is likely due in the days around some local time.
func lineNear(r *rapid.T, local time.Time) string {
	minute := field(r, "minute", 0, 59, rapid.IntRange(0, 59).Draw(r, "some minute"))
	hour := field(r, "hour", 0, 23, rapid.SampledFrom([]int{0, 1, 2, 3, 23}).Draw(r, "some hour"))
	dom := field(r, "dom", 1, 31, local.Day())
	month := field(r, "month", 1, 12, int(local.Month()))
	dow := field(r, "dow", 0, 6, int(local.Weekday()))
	return fmt.Sprintf("%s %s %s %s %s", minute, hour, dom, month, dow)
}

// field is a field of a cron line that often has the given value.
func field(r *rapid.T, name string, lowest, highest, value int) string {
	anything := rapid.IntRange(lowest, highest)
	switch rapid.IntRange(0, 5).Draw(r, name) {
	case 0, 1:
		return "*"
	case 2:
		return fmt.Sprintf("*/%d", rapid.IntRange(2, highest).Draw(r, name+" step"))
	case 3:
		low, high := rapid.IntRange(lowest, value).Draw(r, name+" low"), rapid.IntRange(value, highest).Draw(r, name+" high")
		return fmt.Sprintf("%d-%d", low, high)
	case 4:
		low, high := rapid.IntRange(lowest, value).Draw(r, name+" low"), anything.Draw(r, name+" high")
		return fmt.Sprintf("%d-%d/%d", low, max(low, high), rapid.IntRange(2, 7).Draw(r, name+" step"))
	default:
		items := []string{fmt.Sprint(value)}
		for range rapid.IntRange(0, 3).Draw(r, name+" more") {
			items = append(items, fmt.Sprint(anything.Draw(r, name+" item")))
		}
		return strings.Join(items, ",")
	}
}

// An interval is due at the anchor and at every whole interval after it, and nothing of a zone matters to it.
func TestEveryByElapsedTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		zone := location(rapid.SampledFrom(zones).Draw(r, "zone"))
		seconds := rapid.Int64Range(1, 10_000).Draw(r, "seconds")
		p, err := Cron(fmt.Sprintf("@every %ds", seconds), zone.String(), 0)
		if err != nil {
			r.Fatal(err)
		}
		anchor := near(r, zone, 3*time.Hour)
		after := anchor.Add(time.Duration(rapid.Int64Range(-100, 10_000).Draw(r, "later")) * time.Second)
		want := anchor
		for !want.After(after) {
			want = want.Add(time.Duration(seconds) * time.Second)
		}
		if got := p.Next(anchor.In(zone), after.In(zone)); !got.Equal(want) {
			r.Fatalf("every %d s from %v after %v: %v, want %v", seconds, anchor, after, got, want)
		}
	})
}
