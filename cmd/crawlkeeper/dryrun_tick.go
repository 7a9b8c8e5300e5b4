package main

import (
	"errors"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/manager/schedule"
	"crawlkeeper/sql"
)

// firstTick is when an enabled source whose crawler is started now gets its first tick.
func firstTick(row sql.Source, adapter configs.Adapter, lastDue, now time.Time) (time.Time, error) {
	plan, err := planOf(row)
	if err != nil {
		return time.Time{}, err
	}
	due := now
	if waitsAtStart(row, adapter) {
		after := now
		if plan.IsCron() && !lastDue.IsZero() {
			after = lastDue // its time may have come while no manager was there
		}
		due = plan.Next(now, after)
	}
	due = due.Add(plan.Spread(row.Code, due))
	for _, at := range []time.Time{now, row.PausedUntil} {
		if at.After(due) {
			due = at
		}
	}
	return due, nil
}

func planOf(row sql.Source) (schedule.Plan, error) {
	switch {
	case row.Schedule != "":
		return schedule.Cron(row.Schedule, row.Timezone, row.Jitter)
	case row.IntervalSeconds == nil:
		return schedule.Plan{}, errors.New("it has neither interval_seconds nor a schedule")
	}
	seconds := min(time.Duration(*row.IntervalSeconds), schedule.MaxInterval/time.Second+1)
	return schedule.Every(seconds*time.Second, row.Jitter)
}

// waitsAtStart tells whether the start of its crawler does not make a source due.
func waitsAtStart(row sql.Source, adapter configs.Adapter) bool {
	if adapter.OnStart == "" {
		return row.Schedule != ""
	}
	return adapter.OnStart == configs.OnStartWait
}
