package sql

import (
	"context"
	"fmt"
	"time"

	"crawlkeeper/sql/internal/db"
)

// Streak is how the newest runs of a source ended.
type Streak struct {
	Failures     int       // from the newest run backwards, before the first that did not fail
	Newest       time.Time // when the newest run that counts was started; zero = there is none
	NewestFailed bool
	NewestError  string
	Open         bool // a run is open
}

// StreakQuery asks for the streak of one source.
type StreakQuery struct {
	Source string
	Since  time.Time // runs that were started before or then do not count; zero = all do
	Most   int       // no more failures than these are counted
}

// Verdicts are the words of crawl_runs.status that count, and how the error of an interrupted run begins that counts as failed.
type Verdicts struct {
	Succeeded, Failed, Crashes []string
}

// Streaks reads how the newest runs of some sources ended.
func (s *Store) Streaks(ctx context.Context, sources []StreakQuery, v Verdicts) (map[string]Streak, error) {
	p := db.RunStreaksParams{Succeeded: v.Succeeded, Failed: v.Failed, Crashes: v.Crashes}
	for _, q := range sources {
		since := timestamp(q.Since)
		if q.Since.IsZero() {
			since = minusInfinity
		}
		p.Codes, p.Sinces, p.Most = append(p.Codes, q.Source), append(p.Sinces, since), append(p.Most, int32(q.Most))
	}
	rows, err := s.q.RunStreaks(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read how runs ended: %w", err)
	}
	streaks := make(map[string]Streak, len(rows))
	for _, r := range rows {
		streaks[r.Code] = Streak{
			Failures: int(r.Failures), Newest: timeOf(r.Newest), NewestFailed: r.NewestFailed, NewestError: r.NewestError, Open: r.Open,
		}
	}
	return streaks, nil
}

// RunsIndexed tells whether the newest runs of a source can be found without reading all of that source.
func (s *Store) RunsIndexed(ctx context.Context) (bool, error) {
	indexed, err := s.q.RunsIndexed(ctx)
	if err != nil {
		return false, fmt.Errorf("look for an index of crawl_runs: %w", err)
	}
	return indexed, nil
}
