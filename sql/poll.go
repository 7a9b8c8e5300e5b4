package sql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"crawlkeeper/sql/internal/db"
)

// digestAge is how long an unchanged snapshot is believed without looking at the rows. What a snapshot shows cannot change
// while it stays the same; this covers what is not told by it (a server that lost its last transactions in a crash, a partition
// that lives in another server).
const digestAge = 30 * time.Second

// Version is what a poll saw. The zero value has seen nothing.
type Version struct {
	collector string
	digest    string
	snapshot  string    // "" where it cannot be trusted
	server    string    // when the server was started: another one after a fail-over
	digestAt  time.Time // monotonic
}

// Poll reads the sources if something that the manager acts on has changed since a version; else changed is false and sources nil.
// The position in the history and the count of failures are not among it: crawlers write them all the time.
// It costs one statement while nothing in the database server was committed, one more expensive one where other
// tables changed, and the rows only where it has to.
func (s *Store) Poll(ctx context.Context, collector string, since Version) (sources []Source, now Version, changed bool, err error) {
	known := since
	if since.collector != collector || time.Since(since.digestAt) >= digestAge {
		known.snapshot = ""
	}
	row, err := s.q.Poll(ctx, db.PollParams{KnownSnapshot: known.snapshot, KnownServer: known.server, Collector: collector})
	if err != nil {
		return nil, since, false, fmt.Errorf("poll sources: %w", err)
	}
	if row.Digest == "" {
		return nil, since, false, nil
	}
	now = versionOf(row, collector)
	if since.collector == collector && since.digest == now.digest {
		return nil, now, false, nil
	}
	if sources, row, err = s.pollRows(ctx, collector); err != nil {
		return nil, since, false, err
	}
	now = versionOf(row, collector)
	return sources, now, true, nil
}

// pollRows reads the rows and their digest in one snapshot. Rows that were newer than their digest would be taken for right for
// ever, once a second change made them what the digest says.
func (s *Store) pollRows(ctx context.Context, collector string) (sources []Source, row db.PollRow, err error) {
	one := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, one, func(tx pgx.Tx) error {
		q := db.New(tx)
		if row, err = q.Poll(ctx, db.PollParams{Collector: collector}); err != nil {
			return fmt.Errorf("poll sources: %w", err)
		}
		sources, err = s.sources(ctx, q, collector)
		return err
	})
	return sources, row, err
}

// versionOf keeps a snapshot only where an equal one means equal rows: not on a standby, whose snapshots do not list the
// transactions in progress, and not for a view or a foreign table, which may show what this server's transactions do not tell.
func versionOf(row db.PollRow, collector string) Version {
	v := Version{collector: collector, digest: row.Digest, server: row.Server, digestAt: time.Now()}
	if row.PlainTable && !row.Standby {
		v.snapshot = row.Snapshot
	}
	return v
}
