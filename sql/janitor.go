package sql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"crawlkeeper/sql/internal/db"
)

// NoteDeleted keeps that sources were seen to be deleted, and when.
func (s *Store) NoteDeleted(ctx context.Context, deleted map[string]time.Time) error {
	if len(deleted) == 0 {
		return nil
	}
	var codes []string
	var ats []pgtype.Timestamptz
	for code, at := range deleted {
		codes, ats = append(codes, clean(code)), append(ats, timestamp(at))
	}
	if err := s.q.NoteDeleted(ctx, db.NoteDeletedParams{Codes: codes, Ats: ats}); err != nil {
		return fmt.Errorf("note deleted sources: %w", err)
	}
	return nil
}

// NoteReturned takes sources off those that were deleted: they are there again, or nothing is left of them.
func (s *Store) NoteReturned(ctx context.Context, codes []string) error {
	if len(codes) == 0 {
		return nil
	}
	if err := s.q.NoteReturned(ctx, codes); err != nil {
		return fmt.Errorf("note sources that are not deleted: %w", err)
	}
	return nil
}

// ForeignSources tells which of these codes another collector has.
func (s *Store) ForeignSources(ctx context.Context, collector string, codes []string) (map[string]bool, error) {
	found, err := s.q.ForeignSources(ctx, db.ForeignSourcesParams{Collector: collector, Codes: codes})
	if err != nil {
		return nil, fmt.Errorf("list sources of other collectors: %w", err)
	}
	foreign := make(map[string]bool, len(found))
	for _, code := range found {
		foreign[code] = true
	}
	return foreign, nil
}

// DeletedSources are those that were seen to be deleted before a time and are not there again, under any collector.
func (s *Store) DeletedSources(ctx context.Context, before time.Time) (map[string]time.Time, error) {
	rows, err := s.q.DeletedSources(ctx, timestamp(before))
	if err != nil {
		return nil, fmt.Errorf("list deleted sources: %w", err)
	}
	out := make(map[string]time.Time, len(rows))
	for _, r := range rows {
		out[r.Code] = timeOf(r.At)
	}
	return out, nil
}

// Leaks is what one look found of one kind.
type Leaks struct {
	Kind           string
	Found, Removed int
}

// keepLeaks is for how long the trend is kept.
const keepLeaks = 400 * 24 * time.Hour

// AddLeaks writes what a look found, and removes what is older than about a year.
func (s *Store) AddLeaks(ctx context.Context, manager string, at time.Time, leaks []Leaks) error {
	p := db.AddLeaksParams{At: timestamp(at), Manager: clean(manager)}
	for _, l := range leaks {
		p.Kinds, p.Founds, p.Removeds = append(p.Kinds, l.Kind), append(p.Founds, int64(l.Found)), append(p.Removeds, int64(l.Removed))
	}
	if err := s.q.AddLeaks(ctx, p); err != nil {
		return fmt.Errorf("write what was left behind: %w", err)
	}
	if err := s.q.PruneLeaks(ctx, timestamp(at.Add(-keepLeaks))); err != nil {
		return fmt.Errorf("remove old rows of what was left behind: %w", err)
	}
	return nil
}

// LastLeaks is what the last look of a manager found, by kind. It is empty where there was none.
func (s *Store) LastLeaks(ctx context.Context, manager string) (map[string]Leaks, error) {
	rows, err := s.q.LastLeaks(ctx, clean(manager))
	if err != nil {
		return nil, fmt.Errorf("read what was left behind before: %w", err)
	}
	out := make(map[string]Leaks, len(rows))
	for _, r := range rows {
		out[r.Kind] = Leaks{r.Kind, int(r.Found), int(r.Removed)}
	}
	return out, nil
}

// CountOldProcesses counts what [Store.PruneProcesses] would remove, up to the limit. The two below are its like.
func (s *Store) CountOldProcesses(ctx context.Context, p Pruning) (int64, error) {
	return counted("processes")(s.q.CountOldProcesses(ctx, db.CountOldProcessesParams{Collector: p.Collector, Before: timestamp(p.Before), MaxRows: rowLimit(p.Limit)}))
}

// CountOldRuns counts what [Store.PruneRuns] would remove.
func (s *Store) CountOldRuns(ctx context.Context, p Pruning) (int64, error) {
	return counted("runs")(s.q.CountOldRuns(ctx, db.CountOldRunsParams{Collector: p.Collector, Before: timestamp(p.Before), MaxRows: rowLimit(p.Limit)}))
}

// CountOldLogs counts what [Store.PruneLogs] would remove.
func (s *Store) CountOldLogs(ctx context.Context, p Pruning) (int64, error) {
	return counted("logs")(s.q.CountOldLogs(ctx, db.CountOldLogsParams{Collector: p.Collector, Before: timestamp(p.Before), MaxRows: rowLimit(p.Limit)}))
}

func counted(what string) func(int64, error) (int64, error) {
	return func(n int64, err error) (int64, error) {
		if err != nil {
			return 0, fmt.Errorf("count old %s: %w", what, err)
		}
		return n, nil
	}
}
