package sql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"crawlkeeper/sql/internal/db"
)

// pruneLockWait is how long the removal of old rows waits for a lock, in which time others may wait for it.
const pruneLockWait = "200ms"

// Pruning says which rows are old.
type Pruning struct {
	Collector string    // rows of sources of other collectors stay; those of sources that are gone are removed
	Before    time.Time // rows of that time or younger stay
	Limit     int       // at most so many at once; 0 = all
}

// PruneProcesses removes rows of processes that ended before a time, and returns how many. Those that have not exited stay.
func (s *Store) PruneProcesses(ctx context.Context, p Pruning) (int64, error) {
	return s.prune(ctx, "processes", func(q *db.Queries) (int64, error) {
		return q.PruneProcesses(ctx, db.PruneProcessesParams{Collector: p.Collector, Before: timestamp(p.Before), MaxRows: rowLimit(p.Limit)})
	})
}

// PruneRuns removes runs that were started and finished before a time, with the facts about them, and returns how many. Runs that
// are running, and those without a status or a start, stay.
func (s *Store) PruneRuns(ctx context.Context, p Pruning) (int64, error) {
	return s.prune(ctx, "runs", func(q *db.Queries) (int64, error) {
		return q.PruneRuns(ctx, db.PruneRunsParams{Collector: p.Collector, Before: timestamp(p.Before), MaxRows: rowLimit(p.Limit)})
	})
}

// PruneLogs removes log lines that were written before a time, and returns how many. Those without a time stay.
func (s *Store) PruneLogs(ctx context.Context, p Pruning) (int64, error) {
	return s.prune(ctx, "logs", func(q *db.Queries) (int64, error) {
		return q.PruneLogs(ctx, db.PruneLogsParams{Collector: p.Collector, Before: timestamp(p.Before), MaxRows: rowLimit(p.Limit)})
	})
}

func (s *Store) prune(ctx context.Context, what string, remove func(*db.Queries) (int64, error)) (n int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LimitLockWait(ctx, pruneLockWait); err != nil {
			return fmt.Errorf("limit wait for locks: %w", err)
		}
		n, err = remove(q)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("remove old %s: %w", what, err)
	}
	return n, nil
}
