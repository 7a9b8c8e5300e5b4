package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Words of crawl_runs.status.
const (
	running     = "running"
	succeeded   = "succeeded"
	failed      = "failed"
	interrupted = "interrupted"
)

// run is one round of crawling. Only visit and what it calls use it.
type run struct {
	tick    tick
	started time.Time
	id      string // the text of crawl_runs.id
	pages   int64  // documents that were fetched or found unchanged
	items   int64  // items that were stored
}

// ending is how a run is closed.
type ending struct {
	status string
	err    string // empty: none
}

// openRun opens the run, committed at once, so that others see it and can mark it.
// again says that an earlier try may have been committed unseen: then that row is
// taken, as nobody else opens a run of this source at the same microsecond.
func (s *store) openRun(ctx context.Context, r *run, again bool) error {
	return s.transaction(ctx, "open run", func(ctx context.Context, tx pgx.Tx) error {
		if again {
			const query = `SELECT id::text FROM crawl_runs WHERE source_code = $1 AND started_at = $2 AND status = $3`
			err := tx.QueryRow(ctx, query, s.source, r.started, running).Scan(&r.id)
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		columns, values, args := "", "", []any{s.source, running, r.tick.Trigger, r.started}
		makeID, err := needsID(ctx, tx)
		if err != nil {
			return err
		}
		if makeID {
			id, err := uuid.NewV7()
			if err != nil {
				return fmt.Errorf("make id: %w", err)
			}
			columns, values, args = "id, ", "$5, ", append(args, id.String())
		}
		statement := "INSERT INTO crawl_runs (" + columns + "source_code, status, trigger, started_at) " +
			"VALUES (" + values + "$1, $2, $3, $4::timestamptz) RETURNING id::text"
		return tx.QueryRow(ctx, statement, args...).Scan(&r.id)
	})
}

// needsID says whether ids of runs are ours to make: where the column is a uuid or
// text and the database has no default for it. An integer always has one, if only
// below a view, which does not show it.
func needsID(ctx context.Context, tx pgx.Tx) (bool, error) {
	const query = `
SELECT NOT atthasdef AND attidentity = '' AND atttypid IN ('uuid'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype)
FROM pg_attribute WHERE attrelid = 'crawl_runs'::regclass AND attname = 'id'`
	var makeID bool
	if err := tx.QueryRow(ctx, query).Scan(&makeID); err != nil {
		return false, fmt.Errorf("look at crawl_runs.id: %w", err)
	}
	return makeID, nil
}

// closeRun closes a run that brought nothing more.
func (s *store) closeRun(ctx context.Context, r *run, end ending) error {
	return s.transaction(ctx, "close run", func(ctx context.Context, tx pgx.Tx) error {
		return s.endRun(ctx, tx, r, end, r.items)
	})
}

// endRun writes the end of the run, its facts, and what it means for the source. A
// run that somebody else has closed meanwhile stays as they closed it.
func (s *store) endRun(ctx context.Context, tx pgx.Tx, r *run, end ending, items int64) error {
	const closing = `
UPDATE crawl_runs SET status = $2, finished_at = $3::timestamptz, error = nullif($4::text, '')
WHERE id = $1 AND status = $5`
	tag, err := tx.Exec(ctx, closing, r.id, end.status, now(), end.err, running)
	if err != nil {
		return fmt.Errorf("update run: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	const facts = `
INSERT INTO crawl_run_facts (run_id, tick_id, process_id, items, pages)
VALUES ($1, nullif($2, ''), nullif($3, ''), $4, $5) ON CONFLICT (run_id) DO NOTHING`
	if _, err := tx.Exec(ctx, facts, r.id, r.tick.ID, s.process, items, r.pages); err != nil {
		return fmt.Errorf("insert facts of run: %w", err)
	}
	return s.countFailure(ctx, tx, end.status)
}

// countFailure keeps consecutive_failures. An interrupted run says nothing about the source.
func (s *store) countFailure(ctx context.Context, tx pgx.Tx, status string) error {
	var statement string
	switch status {
	case failed:
		statement = `UPDATE sources SET consecutive_failures = coalesce(consecutive_failures, 0) + 1 WHERE code = $1`
	case succeeded: // a row that would not change is not written
		statement = `UPDATE sources SET consecutive_failures = 0 WHERE code = $1 AND consecutive_failures <> 0`
	default:
		return nil
	}
	if _, err := tx.Exec(ctx, statement, s.source); err != nil {
		return fmt.Errorf("count failures of source: %w", err)
	}
	return nil
}
