package manager

import (
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
)

// FirstTick is when an enabled source gets its first tick if a manager starts its crawler now. lastDue is the due time
// that went out last, zero where there is none. The error says why it gets no ticks.
func FirstTick(row sql.Source, adapter configs.Adapter, lastDue, now time.Time) (time.Time, error) {
	plan, err := makePlan(row)
	if err != nil {
		return time.Time{}, err
	}
	s := source{code: row.Code, row: row, adapter: adapter, plan: plan, anchor: now, due: now}
	if s.waitsAtStart() {
		after := now
		if plan.IsCron() && !lastDue.IsZero() {
			after = lastDue // its time may have come while no manager was there
		}
		if s.due = plan.Next(now, after); s.missed(now) {
			s.due = plan.Next(now, now)
		}
	}
	return latest(latest(s.due.Add(plan.Spread(s.code, s.due)), now), row.PausedUntil), nil
}
