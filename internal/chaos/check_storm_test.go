package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"crawlkeeper/manager/schedule"
)

// checkMissed looks for due times that are missing although Redis, a manager and the crawler were well all the time, whatever
// else was broken. Only pairs of ticks that lie in such a time are judged.
func (r *round) checkMissed(ticks []tick) {
	plans, ok := r.plans()
	if !ok {
		return
	}
	last := make(map[string]tick)
	for _, k := range ticks {
		if k.Trigger == "manual" {
			continue
		}
		before, ok := last[k.code]
		last[k.code] = k
		plan, known := plans[k.code]
		if !ok || !known || r.reshaped[k.code] {
			continue
		}
		lag := r.lag(before, plan)
		if lag < -slackOfClocks || lag >= following(plan, before.Due).Sub(before.Due)/2 || r.lag(k, plan) > 500*time.Millisecond {
			continue
		}
		from, to := before.taken.Sub(r.began)-lag, k.taken.Sub(r.began)
		if r.starvedBetween(from-time.Second, to) || !r.wellBetween(k.code, from, to) {
			continue
		}
		if plan.IsCron() && r.clockSetBetween(from-3*time.Second, to) {
			continue // which times it showed is not known to the second
		}
		r.count("gaps between two ticks that were judged")
		if plan.IsCron() {
			r.count("gaps of cron lines that were judged")
		}
		if why := leftOut(plan, before.Due, k.Due); why != "" {
			r.violated("3 no due time is missing while all is well", k.code, why)
		}
	}
}

// following is the due time that comes after another one.
func following(plan schedule.Plan, due time.Time) time.Time { return plan.Next(due, due) }

// leftOut says what is wrong with a due time that comes after another one. An interval may be anchored anew between them, a cron
// line leaves nothing out and adds nothing.
func leftOut(plan schedule.Plan, before, due time.Time) string {
	next := following(plan, before)
	every := next.Sub(before)
	switch gap := due.Sub(before); {
	case plan.IsCron() && gap != every:
		return fmt.Sprintf("after %v came %v, its line says %v", before, due, next)
	case gap > every+every/2:
		return fmt.Sprintf("%v lie between %v and %v, every %v", gap, before, due, every)
	}
	return ""
}

// plans are the schedules of all sources.
func (r *round) plans() (map[string]schedule.Plan, bool) {
	rows, err := r.db.Query(r.t.Context(), `select s.code, s.interval_seconds, coalesce(o.schedule, ''), coalesce(o.jitter_seconds, 0)
		from sources s left join crawl_source_options o on o.code = s.code`)
	if err != nil {
		r.t.Error(err)
		return nil, false
	}
	out := make(map[string]schedule.Plan)
	var code, line string
	var seconds int
	var jitter float64
	_, err = pgx.ForEachRow(rows, []any{&code, &seconds, &line, &jitter}, func() (err error) {
		out[code], err = planOf(line, time.Duration(seconds)*time.Second, time.Duration(jitter*float64(time.Second)))
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
	return out, err == nil
}

func planOf(line string, interval, jitter time.Duration) (schedule.Plan, error) {
	if line != "" {
		return schedule.Cron(line, "", jitter)
	}
	return schedule.Every(interval, jitter)
}

// wellBetween tells whether one crawler of a source lived all the time, nobody wanted anything of it, and Redis and the
// manager were well, also shortly before.
func (r *round) wellBetween(code string, from, to time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	const before = 3 * time.Second
	within := func(at time.Duration) bool { return at > from-before && at < to }
	broken := func(s span) bool {
		servers := strings.HasPrefix(s.kind, "redis/") || strings.HasPrefix(s.kind, "manager/") || s.kind == "postgres/a failed migration" || s.kind == "crawler/hang"
		return servers && s.to > from-before && s.from < to
	}
	if slices.ContainsFunc(r.rough, within) || slices.ContainsFunc(r.touched[code], within) || slices.ContainsFunc(r.faults, broken) {
		return false
	}
	for _, s := range r.seen {
		if s.code == code && s.first <= from && s.last >= to {
			return true
		}
	}
	return false
}

// checkLines looks for the log line of each start that has a row.
func (r *round) checkLines(ctx context.Context) {
	if r.old != nil {
		return
	}
	rows, err := r.db.Query(ctx, `select p.id::text, p.source || ' ' || p.pid from crawl_processes p where p.pid is not null and not exists
		(select from crawl_logs l where l.source_code = p.source and l.message like 'crawler started pid=' || p.pid || '%')`)
	if err != nil {
		r.t.Error(err)
		return
	}
	var id, what string
	_, err = pgx.ForEachRow(rows, []any{&id, &what}, func() error {
		if s, seen := r.seen[id]; !seen || r.killedAround(s.first, s.last) {
			r.count("log lines that were lost with a manager that was killed")
		} else {
			r.violated("5 each start has its log line", id, what)
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
}

// checkRestarts looks for the process that each restart that was answered with ok has started.
func (r *round) checkRestarts(ctx context.Context) {
	const fuzz = 100 * time.Millisecond
	for _, a := range r.asked {
		var found bool
		err := r.db.QueryRow(ctx, `select exists (select from crawl_processes where source = $1 and started_at between $2 and $3)`,
			a.code, a.sent.Add(-fuzz), a.replied.Add(fuzz)).Scan(&found)
		switch {
		case err != nil:
			r.t.Error(err)
			return
		case found:
			r.count("restarts that took effect before they were answered")
		case r.killedAround(a.sent.Sub(r.began), a.replied.Sub(r.began)):
			r.count("restarts whose row was lost with a manager that was killed")
		default:
			r.violated("7 a restart takes effect", a.id+" "+a.code, fmt.Sprintf("sent %v, answered %v: nobody was started", a.sent, a.replied))
		}
	}
}
