package schedule

import (
	"testing"
	"time"
)

// Whatever the line, the zone and the jitter: no panic, no hang, due times that rise, and always another one.
func FuzzCron(f *testing.F) {
	for _, line := range []string{
		"30 2 * * *", "*/20 1-3 * * *", "15 30 4 29 2 *", "@daily", "@every 90s", "@every -1h", ", * * * * *", "* , * * *", "0 0 30 2 *",
		"TZ=", "CRON_TZ=UTC * * * * *", "*/99999999999999999999 * * * *", "1-/2 * * * *", "? ? ? ? ? ?", "0 0 31 4,6 */2", "* * 0-23 * * *", "@yearly",
	} {
		f.Add(line, "Europe/Berlin", int64(0), int64(1_774_744_200))
		f.Add(line, "Africa/Cairo", int64(time.Minute), int64(1_777_000_000))
	}
	f.Add("0 0 29 2 *", "Pacific/Apia", int64(-1), int64(1_325_000_000))
	f.Add("0 0 * * *", "../etc", int64(1), int64(0))
	f.Fuzz(func(t *testing.T, line, zone string, jitter, seconds int64) {
		p, err := Cron(line, zone, time.Duration(jitter))
		if err != nil {
			return
		}
		from := time.Unix(seconds%(60*365*24*3600), seconds%1_000_000_000) // 1910 to 2030
		for i := 0; i < 20 && from.Year() < 2090; i++ {                    // around 2100 eight years have no 29 February; robfig/cron looks for five
			begun := time.Now()
			next := p.Next(time.Time{}, from)
			if took := time.Since(begun); took > time.Second {
				t.Fatalf("%q in %q after %v took %v", line, zone, from, took)
			}
			if !next.After(from) {
				t.Fatalf("%q in %q after %v: %v", line, zone, from, next)
			}
			if p.IsCron() && next.Year() > from.Year()+6 { // robfig/cron's five, and the zone's new year
				t.Fatalf("%q in %q after %v: only at %v", line, zone, from, next)
			}
			if s := p.Spread("a", next); s < 0 || s > time.Duration(jitter) {
				t.Fatalf("a jitter of %d ns spreads by %v", jitter, s)
			}
			from = next
		}
	})
}
