package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// row is what is open in Postgres.
type row struct {
	Kind, ID, Code, Process string
}

// openRows are runs and processes that have no end, and runs that were marked a moment ago. What is read here is compared
// with what was seen alive: later, so that it can only have got worse.
const openRows = `
SELECT 'run' AS kind, id::text, source_code AS code, coalesce(process, '') AS process FROM crawl_runs WHERE status = 'running'
UNION ALL SELECT 'marked', id::text, source_code, coalesce(process, '') FROM crawl_runs WHERE status = 'interrupted' AND finished_at > now() - interval '1 minute'
UNION ALL SELECT 'row', id::text, source, id::text FROM crawl_processes WHERE status <> 'exited' AND kind = 'crawler'
UNION ALL SELECT 'closed', id::text, source, id::text FROM crawl_processes WHERE status = 'exited' AND ended_at > now() - interval '1 minute'`

// watchPostgres looks at rows, past the wire.
func (r *round) watchPostgres(ctx context.Context) {
	var watch stopwatch
	for sleep(ctx, 300*time.Millisecond) {
		rows, err := r.readRows(ctx)
		fair := watch.lap(err == nil && r.fair(needRedis|needPostgres))
		if err == nil {
			r.debts.look("rows", fair, r.judgeRows(rows))
		}
	}
}

func (r *round) readRows(ctx context.Context) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	rows, err := r.db.Query(ctx, openRows)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[row])
}

func (r *round) judgeRows(rows []row) []debt {
	r.mu.Lock()
	living := make(map[string]incarnation)
	for _, p := range r.leaders {
		living[p.id] = incarnation{p.pid, p.start}
	}
	seen := r.seen
	var owed []debt
	inDatabase := make(map[string]bool)
	var alive []row
	for _, w := range rows {
		who, up := living[w.Process]
		_, known := seen[w.Process]
		switch {
		case w.Kind == "run" && !up && known:
			owed = append(owed, debt{"4 no run stays open whose process ended", w.ID, 10 * time.Second, "source " + w.Code + ", process " + w.Process})
		case w.Kind == "row" && !up:
			owed = append(owed, debt{"5 no row stays open whose process ended", w.ID, 10 * time.Second, "source " + w.Code})
		case (w.Kind == "marked" || w.Kind == "closed") && up && who.lives():
			alive = append(alive, w)
		}
		if w.Kind == "row" || w.Kind == "closed" {
			inDatabase[w.ID] = true
		}
	}
	for id := range living {
		if !inDatabase[id] && r.old == nil {
			owed = append(owed, debt{"5 each process has a row", id, 10 * time.Second, "it has none"})
		}
	}
	r.mu.Unlock()
	for _, w := range alive {
		r.violated("4 nothing is closed that lives", w.Code, fmt.Sprintf("%s %s, process %s", w.Kind, w.ID, w.Process))
	}
	return owed
}
