package feed

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// statementLimit bounds one try of one transaction; a database that hangs is tried again.
	statementLimit = 30 * time.Second
	// idleLimit gives the connection back between the ticks of a quiet source: a
	// thousand crawlers must not hold a thousand connections.
	idleLimit = 30 * time.Second
)

// store is the crawler's side of Postgres, for one source. It is used by one goroutine.
type store struct {
	pool    *pgxpool.Pool
	source  string
	process string // id of this process, noted with each run
}

// poolConfig reads a connection string. Its errors never show it.
func poolConfig(raw string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(raw)
	if err != nil {
		return nil, errors.New("the Postgres URL is not valid")
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = 2, 0, 0
	config.MaxConnIdleTime, config.HealthCheckPeriod = idleLimit, idleLimit/2
	config.ConnConfig.ConnectTimeout = 10 * time.Second
	params := config.ConnConfig.RuntimeParams
	params["timezone"] = "UTC" // a column without zone, or of days, means UTC
	params["datestyle"] = "ISO"
	if params["application_name"] == "" {
		params["application_name"] = "crawlkeeper crawl-feed"
	}
	return config, nil
}

// newStore connects when it is first used, not before.
func newStore(o Options) (*store, error) {
	config, err := poolConfig(o.PostgresURL)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return &store{pool: pool, source: o.Source, process: o.ProcessID}, nil
}

// close ends the connections, but waits no longer than limit for a database that hangs.
func (s *store) close(limit time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.pool.Close()
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// transaction runs f in one transaction: all of it is stored, or nothing.
func (s *store) transaction(ctx context.Context, what string, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// known is what is remembered of a source and its feed from earlier runs.
type known struct {
	Validators   validators
	HasSource    bool
	Position     time.Time // zero: no page of the history was walked yet
	PositionDate bool      // the column holds days, so Position is only a day
	HistoryDone  bool
}

// load reads what earlier runs left. The row of the source is newer than a tick,
// which may have waited while a run moved the position.
func (s *store) load(ctx context.Context, address *url.URL) (known, error) {
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	const query = `
SELECT s.code IS NOT NULL, s.history_position::timestamptz, pg_typeof(s.history_position) = 'date'::regtype,
       coalesce(s.history_done, false), coalesce(f.etag, ''), coalesce(f.last_modified, '')
FROM (SELECT) one
LEFT JOIN sources s ON s.code = $1
LEFT JOIN crawl_feed_state f ON f.source = $1 AND f.url = $2`
	var k known
	var position pgtype.Timestamptz
	err := s.pool.QueryRow(ctx, query, s.source, stateKey(address)).
		Scan(&k.HasSource, &position, &k.PositionDate, &k.HistoryDone, &k.Validators.ETag, &k.Validators.LastModified)
	if err != nil {
		return known{}, fmt.Errorf("read state of feed: %w", err)
	}
	if position.Valid && position.InfinityModifier == pgtype.Finite {
		k.Position = position.Time.UTC()
	}
	return k, nil
}

// exactPosition turns a position that is only a day into the moment of the oldest
// item that is stored of that day: the column cannot hold it, the items do.
func (s *store) exactPosition(ctx context.Context, day time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	const query = `SELECT min(published_at) FROM crawl_feed_items
WHERE source = $1 AND published_at >= $2 AND published_at < $2 + interval '1 day'`
	var oldest *time.Time
	if err := s.pool.QueryRow(ctx, query, s.source, day).Scan(&oldest); err != nil {
		return time.Time{}, fmt.Errorf("read position in history: %w", err)
	}
	if oldest == nil {
		return day, nil
	}
	return oldest.UTC(), nil
}

// stateKey is the feed's address, or what stands for one that is too long for an index.
func stateKey(address *url.URL) string {
	text := address.String()
	if len(text) > maxKeyBytes {
		return digest(text)
	}
	return text
}

// page is one document that was fetched, and what its transaction stores.
type page struct {
	Items []item
	// State is set for the feed itself: what the next conditional request needs.
	State *feedState
	// History is set for a page of the history.
	History *progress
}

type feedState struct {
	Address     *url.URL
	NotModified bool // the validators stay as they are
	Validators  validators
}

// savePage stores a page and, with the last one, the end of the run, in one
// transaction. It returns how many items were new, and may be repeated when it
// is not known whether the first try was committed.
func (s *store) savePage(ctx context.Context, r *run, p page, end *ending) (stored int64, err error) {
	err = s.transaction(ctx, "store page", func(ctx context.Context, tx pgx.Tx) error {
		if stored, err = s.insertItems(ctx, tx, r, p.Items); err != nil {
			return err
		}
		if err := s.saveState(ctx, tx, p.State); err != nil {
			return err
		}
		if err := s.moveHistory(ctx, tx, p.History); err != nil {
			return err
		}
		if end == nil {
			return nil
		}
		return s.endRun(ctx, tx, r, *end, r.items+stored)
	})
	return stored, err
}

func (s *store) insertItems(ctx context.Context, tx pgx.Tx, r *run, items []item) (int64, error) {
	if len(items) == 0 {
		return 0, nil
	}
	var keys, links, titles, summaries, authors []string
	var published []*time.Time
	for _, it := range items {
		keys, links, titles = append(keys, it.Key), append(links, it.Link), append(titles, it.Title)
		summaries, authors = append(summaries, it.Summary), append(authors, it.Author)
		published = append(published, orNull(it.Published))
	}
	const statement = `
INSERT INTO crawl_feed_items (source, guid, url, title, summary, author, published_at, fetched_at, run_id)
SELECT $1, guid, nullif(url, ''), nullif(title, ''), nullif(summary, ''), nullif(author, ''), published_at, $8, $9
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
  AS i (guid, url, title, summary, author, published_at)
ON CONFLICT (source, guid) DO NOTHING`
	tag, err := tx.Exec(ctx, statement, s.source, keys, links, titles, summaries, authors, published, now(), r.id)
	if err != nil {
		return 0, fmt.Errorf("insert items: %w", err)
	}
	return tag.RowsAffected(), nil
}

func (s *store) saveState(ctx context.Context, tx pgx.Tx, state *feedState) error {
	if state == nil {
		return nil
	}
	statement, args := `
INSERT INTO crawl_feed_state (source, url, last_status, fetched_at, etag, last_modified)
VALUES ($1, $2, 200, $3, nullif($4, ''), nullif($5, ''))
ON CONFLICT (source, url) DO UPDATE SET last_status = excluded.last_status, fetched_at = excluded.fetched_at,
  etag = excluded.etag, last_modified = excluded.last_modified`,
		[]any{s.source, stateKey(state.Address), now(), state.Validators.ETag, state.Validators.LastModified}
	if state.NotModified {
		statement, args = `UPDATE crawl_feed_state SET last_status = 304, fetched_at = $3 WHERE source = $1 AND url = $2`, args[:3]
	}
	if _, err := tx.Exec(ctx, statement, args...); err != nil {
		return fmt.Errorf("write state of feed: %w", err)
	}
	return nil
}

// moveHistory moves the position backward, never forward. The column may hold
// moments, with or without zone, or days: the assignment casts.
func (s *store) moveHistory(ctx context.Context, tx pgx.Tx, p *progress) error {
	if p == nil {
		return nil
	}
	const statement = `
UPDATE sources SET history_position = least(history_position::timestamptz, $2::timestamptz), history_done = $3
WHERE code = $1`
	if _, err := tx.Exec(ctx, statement, s.source, orNull(p.Position), p.Done); err != nil {
		return fmt.Errorf("move position in history: %w", err)
	}
	return nil
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// now is the time as Postgres keeps it, in UTC.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
