package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// What is lost with a manager: rows of processes that its journal had accepted, and that Postgres could not take any more.

// life is one incarnation of a manager.
type life struct {
	unit      string
	from, to  time.Duration
	killed    bool   // by SIGKILL: it had no last words
	unwritten bool   // it said at its end that its journal has entries left, or that a server does not answer
	halts     []span // when it was stopped
}

const (
	journalBound = 100 * time.Millisecond  // from accepting to committing: it gathers for 50 ms, and a commit takes its time
	behindLocks  = 3250 * time.Millisecond // for so long it waits for locks of others on other tables, before it writes what came meanwhile
	longestPause = 5 * time.Second         // between two tries while Postgres is away
	lastWords    = 3 * time.Second         // what an end takes where Postgres does not answer: two seconds, and one to close connections
)

// rowsLost is counted. It is shown even where there were none.
const rowsLost = "rows lost with a manager"

// mayLose says why the row of a process that the journal accepted at a moment cannot be lost with this manager; "" where it
// can. The journal must never have had the time to write it; and one that was not killed tries until its end, and says what is left.
func (l life) mayLose(accepted time.Duration, faults, starved []span) string {
	away := outages(faults)
	switch {
	case l.killed:
	case !slices.ContainsFunc(faults, func(s span) bool { return withholds(s) && s.to > l.to-lastWords && s.from < l.to }):
		return "its manager was not killed, and Postgres answered when it ended"
	case !l.unwritten:
		return "its manager was not killed, and did not say that something is left"
	}
	bound := slack * journalBound
	if slices.ContainsFunc(faults, func(s span) bool { return delays(s) && s.to > accepted && s.from < l.to }) {
		bound += behindLocks
	}
	if free := uncovered(accepted, l.to, slices.Concat(away, l.halts, starved)); free > bound {
		return fmt.Sprintf("its manager could have written it for %v", free.Round(time.Millisecond))
	}
	return ""
}

// withholds tells whether no rows of processes can be written because of a fault. Where a migration fails Postgres answers all the time;
// where it is slow, the journal may wait for its answers as long as that lasts.
func withholds(s span) bool {
	switch s.kind {
	case "manager/no descriptors":
		return true
	case "postgres/a failed migration":
		return false
	}
	return strings.HasPrefix(s.kind, "postgres/") && !delays(s)
}

// delays tells whether a fault is a lock that holds up other rows.
func delays(s span) bool {
	return strings.HasPrefix(s.kind, "postgres/a lock on ") && s.kind != "postgres/a lock on crawl_processes"
}

// outages are the times in which no rows of processes could be written: until a journal has tried again, which it does after a
// pause that grows with the time that Postgres was away.
func outages(faults []span) []span {
	resumed := func(s span) time.Duration { return s.to + min(longestPause, time.Second+s.to-s.from) }
	var out []span
	for _, s := range slices.SortedFunc(slices.Values(faults), earlier) {
		switch n := len(out); {
		case !withholds(s):
		case n > 0 && s.from <= resumed(out[n-1]):
			out[n-1].to = max(out[n-1].to, s.to)
		default:
			out = append(out, s)
		}
	}
	for i, s := range out {
		out[i].to = resumed(s)
	}
	return out
}

func earlier(a, b span) int { return cmp.Compare(a.from, b.from) }

// uncovered is how much of a time lies in none of some spans.
func uncovered(from, to time.Duration, by []span) (free time.Duration) {
	for _, s := range slices.SortedFunc(slices.Values(by), earlier) {
		free += max(0, min(s.from, to)-from)
		from = max(from, s.to)
	}
	return free + max(0, to-from)
}

// bury notes that a manager has ended.
func (r *round) bury(l life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives = append(r.lives, l)
}

// keepsRow says why a process that was seen must have a row; "" where it was lost with the manager that started it.
func (r *round) keepsRow(id string, s sighting) string {
	accepted := r.accepted(id, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	maker := r.makers[uint32(s.tree>>32)]
	for _, l := range r.lives {
		if l.unit == maker && l.from <= accepted && accepted <= l.to {
			return l.mayLose(accepted, r.faults, r.starved)
		}
	}
	return fmt.Sprintf("no manager (%q) ended that had started it at %v", maker, accepted)
}

// accepted is when the journal accepted a process: its id is made then, and bears the time.
func (r *round) accepted(id string, s sighting) time.Duration {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return s.first
	}
	return time.Unix(u.Time().UnixTime()).Sub(r.began)
}

// checkLost looks at processes without a row: what was lost with a manager is counted, and the next one has marked their runs.
func (r *round) checkLost(ctx context.Context, without map[string]sighting) {
	lost := make([]string, 0, len(without))
	for id, s := range without {
		if why := r.keepsRow(id, s); why != "" {
			r.violated("5 each process has a row", id, fmt.Sprintf("%s, alive from %v to %v: %s", s.code, s.first, s.last, why))
			continue
		}
		lost = append(lost, id)
		r.count(rowsLost)
		r.note("lost", s.code, fmt.Sprintf("the row of %s, accepted at %v", id, r.accepted(id, s)))
	}
	rows, err := r.db.Query(ctx, `select id::text, source_code || ' ' || process || ' began ' || started_at from crawl_runs where status = 'running' and process = any($1)`, lost)
	if err != nil {
		r.t.Error(err)
		return
	}
	var run, what string
	if _, err := pgx.ForEachRow(rows, []any{&run, &what}, func() error {
		r.violated("4 no run is open at the end whose process lost its row", run, what)
		return nil
	}); err != nil {
		r.t.Error(err)
	}
}
