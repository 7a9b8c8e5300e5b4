package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"crawlkeeper/sql/internal/db"
)

// SourceEdit changes columns of one source. Only what is given is written. HistoryTarget and HistoryPosition are texts that
// Postgres reads as a time ("2026-01-01", Python's isoformat).
type SourceEdit struct {
	Code string

	Adapter             Opt[string]
	Enabled             Opt[bool]
	IntervalSeconds     Opt[int]
	BackfillHours       Opt[int]
	HistoryTarget       Opt[string]
	HistoryPosition     Opt[string]
	HistoryDone         Opt[bool]
	ConsecutiveFailures Opt[int]
	PausedUntil         Opt[time.Time]

	Schedule    Opt[string]
	Timezone    Opt[string]
	Jitter      Opt[time.Duration]
	Payload     Opt[json.RawMessage]
	PauseReason Opt[string]
	PausedBy    Opt[string]
	Wanted      Opt[string]

	BackfillStartedAt Opt[time.Time]
	BackfillTarget    Opt[string]
	BackfillFrom      Opt[string]
}

// Applied counts what [Store.Apply] did.
type Applied struct {
	Inserted, Updated, Unchanged, Deleted int
}

// UnknownSourcesError names codes that the collector does not have. Nothing was changed.
type UnknownSourcesError struct {
	Codes []string
}

func (e *UnknownSourcesError) Error() string {
	return "unknown source: " + strings.Join(e.Codes, ", ")
}

// Apply inserts the sources that do not exist and changes the others, all in one transaction. A new row gets the database's
// defaults in the columns that are not given, and where there are none those of the old system: enabled, every 300 s,
// 24 hours back. A code that belongs to another collector is an error. Sources named in unwanted are deleted in the same
// transaction, those that are gone already are no error there.
func (s *Store) Apply(ctx context.Context, collector string, edits []SourceEdit, unwanted ...string) (Applied, error) {
	var applied Applied
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		known, err := collectors(ctx, tx, edits)
		if err != nil {
			return err
		}
		columns, err := db.New(tx).Columns(ctx)
		if err != nil {
			return fmt.Errorf("read columns of sources: %w", err)
		}
		e := editor{collector: collector, defaults: missingDefaults(columns)}
		for _, edit := range edits {
			switch owner, exists := known[edit.Code]; {
			case !exists:
				e.insert(edit)
			case owner != collector:
				return fmt.Errorf("change source %q: it belongs to the collector %q", edit.Code, owner)
			default:
				e.update(edit)
			}
		}
		if applied, err = e.run(ctx, tx); err != nil {
			return err
		}
		gone, err := remove(ctx, tx, collector, unwanted)
		applied.Deleted = len(gone)
		return err
	})
	return applied, err
}

// Edit changes sources that exist, all or none: an [*UnknownSourcesError] names the codes that do not.
func (s *Store) Edit(ctx context.Context, collector string, edits []SourceEdit) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		known, err := collectors(ctx, tx, edits)
		if err != nil {
			return err
		}
		e := editor{collector: collector}
		var unknown []string
		for _, edit := range edits {
			if owner, exists := known[edit.Code]; !exists || owner != collector {
				unknown = append(unknown, edit.Code)
			}
			e.update(edit)
		}
		if unknown != nil {
			return &UnknownSourcesError{Codes: unknown}
		}
		_, err = e.run(ctx, tx)
		return err
	})
}

// Delete removes sources with their options, all or none. Runs, logs and processes stay.
func (s *Store) Delete(ctx context.Context, collector string, codes []string) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		gone, err := remove(ctx, tx, collector, codes)
		if err != nil {
			return err
		}
		if unknown := without(codes, gone); unknown != nil {
			return &UnknownSourcesError{Codes: unknown}
		}
		return nil
	})
}

// remove deletes those of the sources that the collector has, with their options, and names them.
func remove(ctx context.Context, tx pgx.Tx, collector string, codes []string) (gone []string, err error) {
	if len(codes) == 0 {
		return nil, nil
	}
	q := db.New(tx)
	if gone, err = q.DeleteSources(ctx, db.DeleteSourcesParams{Codes: codes, Collector: collector}); err != nil {
		return nil, fmt.Errorf("delete sources: %w", err)
	}
	if err := q.DeleteSourceOptions(ctx, gone); err != nil {
		return nil, fmt.Errorf("delete options of sources: %w", err)
	}
	return gone, nil
}

// inTx runs f in a transaction that does not queue behind a lock for long.
func (s *Store) inTx(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := db.New(tx).LimitLockWait(ctx, "5s"); err != nil {
			return fmt.Errorf("limit wait for locks: %w", err)
		}
		return f(tx)
	})
}

// collectors tells which of the sources exist and whose they are. A code that is named twice is an error.
func collectors(ctx context.Context, tx pgx.Tx, edits []SourceEdit) (map[string]string, error) {
	codes := make([]string, 0, len(edits))
	seen := make(map[string]bool, len(edits))
	for _, e := range edits {
		if seen[e.Code] {
			return nil, fmt.Errorf("change source %q: it is named twice", e.Code)
		}
		seen[e.Code] = true
		codes = append(codes, e.Code)
	}
	rows, err := db.New(tx).Collectors(ctx, codes)
	if err != nil {
		return nil, fmt.Errorf("look up sources: %w", err)
	}
	known := make(map[string]string, len(rows))
	for _, row := range rows {
		known[row.Code] = row.Collector
	}
	return known, nil
}

// without is what of all is not among some; nil where nothing is.
func without(all, some []string) (rest []string) {
	have := make(map[string]bool, len(some))
	for _, s := range some {
		have[s] = true
	}
	for _, a := range all {
		if !have[a] {
			rest = append(rest, a)
		}
	}
	return rest
}
