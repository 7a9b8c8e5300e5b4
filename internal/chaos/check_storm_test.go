package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// checkMissed looks for due times that are missing although Redis, a manager and the crawler were well all the time, whatever
// else was broken. Only pairs of ticks that lie in such a time are judged.
func (r *round) checkMissed(ticks []tick) {
	intervals, ok := r.intervals()
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
		every, known := intervals[k.code]
		lag := r.lag(before)
		if !ok || !known || r.reshaped[k.code] || lag >= every/2 || r.lag(k) > 500*time.Millisecond {
			continue
		}
		from, to := before.taken.Sub(r.began)-lag, k.taken.Sub(r.began)
		if r.starvedBetween(from-time.Second, to) || !r.wellBetween(k.code, from, to) {
			continue
		}
		r.count("gaps between two ticks that were judged")
		if gap := k.Due.Sub(before.Due); gap > every+every/2 {
			r.violated("3 no due time is missing while all is well", k.code, fmt.Sprintf("%v lie between %v and %v, every %v", gap, before.Due, k.Due, every))
		}
	}
}

func (r *round) intervals() (map[string]time.Duration, bool) {
	rows, err := r.db.Query(r.t.Context(), `select code, interval_seconds from sources`)
	if err != nil {
		r.t.Error(err)
		return nil, false
	}
	out := make(map[string]time.Duration)
	var code string
	var seconds int
	_, err = pgx.ForEachRow(rows, []any{&code, &seconds}, func() error { out[code] = time.Duration(seconds) * time.Second; return nil })
	if err != nil {
		r.t.Error(err)
	}
	return out, err == nil
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
