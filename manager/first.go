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
	m := moment{wall: now.Round(0)}
	s := source{code: row.Code, row: row, adapter: &adapter, plan: plan, anchor: m, lastDue: lastDue}
	s.due = s.dueAtOnce(m)
	if s.waitsAtStart() {
		after := m
		if plan.IsCron() && !lastDue.IsZero() {
			after.wall = lastDue // its time may have come while no manager was there
		}
		if s.due = s.nextDue(after); s.missed(m) {
			s.due = s.nextDue(m)
		}
	}
	at := s.due.shown(m.offset()).Add(plan.Spread(s.code, s.due.wall))
	return latest(latest(at, m.wall), row.PausedUntil), nil
}
