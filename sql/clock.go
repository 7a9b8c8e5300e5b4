package sql

import (
	"context"
	"fmt"
	"time"
)

// Clock is what the clock of the database server shows.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	now, err := s.q.Clock(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the clock of postgres: %w", err)
	}
	return timeOf(now), nil
}
