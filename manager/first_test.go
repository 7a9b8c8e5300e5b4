package manager

import (
	"testing"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
)

// What FirstTick says is what the fleet does.
func TestTheFirstTickIsWhenItWasSaid(t *testing.T) {
	t.Parallel()
	cron := func(schedule string) sql.Source {
		r := row("a", 60)
		r.Schedule = schedule
		return r
	}
	paused, spread := row("a", 60), row("a", 60)
	paused.PausedUntil = time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC) // a bubble begins with the year 2000
	spread.Jitter = 30 * time.Second
	for name, c := range map[string]struct {
		row     sql.Source
		onStart string
		misfire string
		last    time.Duration // before now, that a tick went out; 0 = never
	}{
		"interval":                {row: row("a", 60)},
		"interval that waits":     {row: row("a", 60), onStart: configs.OnStartWait},
		"interval, spread":        {row: spread},
		"interval, waits, skips":  {row: row("a", 60), onStart: configs.OnStartWait, misfire: configs.MisfireSkip, last: time.Hour},
		"paused":                  {row: paused},
		"cron":                    {row: cron("0 12 * * *")},
		"cron at the start":       {row: cron("0 12 * * *"), onStart: configs.OnStartTick},
		"cron that was missed":    {row: cron("0 12 * * *"), last: 72 * time.Hour},
		"cron that skips":         {row: cron("0 12 * * *"), last: 72 * time.Hour, misfire: configs.MisfireSkip},
		"cron that missed none":   {row: cron("0 12 * * *"), last: 11 * time.Hour},
		"cron, start, was missed": {row: cron("0 12 * * *"), onStart: configs.OnStartTick, last: 72 * time.Hour, misfire: configs.MisfireSkip},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleetBubble(t, func(b *bench) {
				adapter := b.conf.Adapters["*"]
				adapter.OnStart, adapter.Misfire = c.onStart, c.misfire
				b.conf.Adapters["*"] = adapter
				now, last := time.Now(), time.Time{}
				if c.last > 0 {
					last = now.Add(-c.last)
					b.lost = map[string]time.Time{"a": last}
				}
				want, err := FirstTick(c.row, adapter, last, now)
				if err != nil {
					t.Fatal(err)
				}
				b.poll(c.row)
				time.Sleep(13 * time.Hour)
				if got := b.sent(); len(got) == 0 || !got[0].at.wall.Equal(want) {
					t.Errorf("said %v, and then %+v", want, got)
				}
			})
		})
	}
}
