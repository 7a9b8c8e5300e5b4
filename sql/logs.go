package sql

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"crawlkeeper/sql/internal/db"
)

// LogRow is a row of crawl_logs.
type LogRow struct {
	ID        string // text, whatever the type in the database is
	Source    string
	RunID     string
	Level     string
	Message   string
	CreatedAt time.Time // zero where the row has none
}

// LogFilter chooses rows of crawl_logs; zero fields choose all.
type LogFilter struct {
	Source string
	Levels []string // any of these
	Since  time.Time
	Limit  int // the newest so many, 0 = all
}

// Logs lists the newest log rows, the oldest of them first.
func (s *Store) Logs(ctx context.Context, f LogFilter) ([]LogRow, error) {
	levels := f.Levels
	if levels == nil {
		levels = []string{} // a null array would match nothing
	}
	rows, err := s.q.Logs(ctx, db.LogsParams{Source: f.Source, Levels: levels, Since: timestamp(f.Since), MaxRows: rowLimit(f.Limit)})
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	logs := make([]LogRow, len(rows))
	for i, row := range rows {
		logs[len(rows)-1-i] = LogRow{
			ID: row.ID, Source: row.Source, RunID: row.RunID, Level: row.Level, Message: row.Message, CreatedAt: timeOf(row.CreatedAt),
		}
	}
	return logs, nil
}

// lateRows is how far FollowLogs looks back: rows may become visible later than younger ones.
const lateRows = 10 * time.Second

// FollowLogs yields what Logs lists and then each new row, looking for them at every interval, until the context ends. Rows that
// are committed up to ten seconds after their time are seen. An error is yielded and does not end it: the next look may succeed.
func (s *Store) FollowLogs(ctx context.Context, f LogFilter, every time.Duration) iter.Seq2[LogRow, error] {
	return func(yield func(LogRow, error) bool) {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		seen := make(map[string]time.Time) // ids of rows since f.Since
		var from time.Time                 // older rows were cut off by the first look's limit
		for {
			rows, err := s.Logs(ctx, f)
			if ctx.Err() != nil || err != nil && !yield(LogRow{}, err) {
				return
			}
			for _, row := range rows {
				if _, known := seen[row.ID]; known || row.CreatedAt.Before(from) {
					continue
				}
				seen[row.ID] = row.CreatedAt
				if !yield(row, nil) {
					return
				}
			}
			if err == nil {
				if f.Limit > 0 && len(rows) == f.Limit {
					from = rows[0].CreatedAt
				}
				f = f.next(rows, seen)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// next is the filter for what comes after some rows; it forgets rows that it will not see again.
func (f LogFilter) next(rows []LogRow, seen map[string]time.Time) LogFilter {
	f.Limit = 0
	newest := time.Now()
	if len(rows) > 0 {
		newest = slices.MaxFunc(rows, func(a, b LogRow) int { return a.CreatedAt.Compare(b.CreatedAt) }).CreatedAt
	} else if !f.Since.IsZero() {
		return f
	}
	if since := newest.Add(-lateRows); since.After(f.Since) {
		f.Since = since
	}
	for id, at := range seen {
		if at.Before(f.Since) {
			delete(seen, id)
		}
	}
	return f
}
