package sql

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"crawlkeeper/sql/internal/db"
)

// CrawlRun is a row of crawl_runs, with the facts that its crawler wrote about it.
type CrawlRun struct {
	ID         string // text, whatever the type in the database is
	Source     string
	Status     string
	Trigger    string
	StartedAt  time.Time
	FinishedAt time.Time
	Error      string

	TickID    string
	ProcessID string
	Items     *int64
	Pages     *int64
}

// RunFilter chooses rows of crawl_runs; zero fields choose all.
type RunFilter struct {
	Source string
	Status string
	Since  time.Time // started then or later
	Limit  int       // 0 = all
}

// Runs lists runs, the youngest first.
func (s *Store) Runs(ctx context.Context, f RunFilter) ([]CrawlRun, error) {
	rows, err := s.q.Runs(ctx, db.RunsParams{Source: f.Source, Status: f.Status, Since: timestamp(f.Since), MaxRows: rowLimit(f.Limit)})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	runs := make([]CrawlRun, len(rows))
	for i, row := range rows {
		runs[i] = CrawlRun{
			ID: row.ID, Source: row.Source, Status: row.Status, Trigger: row.Trigger,
			StartedAt: timeOf(row.StartedAt), FinishedAt: timeOf(row.FinishedAt), Error: row.Error,
			TickID: row.TickID, ProcessID: row.ProcessID, Items: count(row.Items), Pages: count(row.Pages),
		}
	}
	return runs, nil
}

// OpenRuns tells which of the sources have a run that is open, backfills left out.
func (s *Store) OpenRuns(ctx context.Context, sources []string) (map[string]bool, error) {
	rows, err := s.q.SourcesWithOpenRuns(ctx, sources)
	if err != nil {
		return nil, fmt.Errorf("look for open runs: %w", err)
	}
	open := make(map[string]bool, len(rows))
	for _, source := range rows {
		open[source] = true
	}
	return open, nil
}

func count(n pgtype.Int8) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.Int64
}

// rowLimit is the LIMIT of a statement: 0 is none.
func rowLimit(n int) int64 {
	if n <= 0 {
		return math.MaxInt64
	}
	return int64(n)
}
