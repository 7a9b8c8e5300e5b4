package sql

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql/internal/db"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// migrated is a database of its own with all tables.
func migrated(t *testing.T) *testenv.PG {
	t.Helper()
	return testenv.PostgresFrom(t, "migrated", func(ctx context.Context, url string) error {
		_, err := Migrate(ctx, url, slog.New(slog.DiscardHandler))
		return err
	})
}

func open(t *testing.T, pg *testenv.PG) *Store {
	t.Helper()
	store, err := Open(t.Context(), pg.URL(), testenv.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// statements counts what a store sends.
type statements struct {
	queries, batches atomic.Int64
}

func (c *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}
func (c *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}
func (c *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	c.queries.Add(1)
}
func (c *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// openCounted is open with a count of statements.
func openCounted(t *testing.T, pg *testenv.PG) (*Store, *statements) {
	t.Helper()
	config, err := parse(pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	counter := new(statements)
	config.ConnConfig.Tracer = counter
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &Store{pool: pool, q: db.New(pool), log: testenv.Logger(t)}, counter
}

// runJournal runs a journal until the end of the test.
func runJournal(t *testing.T, j *Journal) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- j.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func flush(t *testing.T, j *Journal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := j.Flush(ctx); err != nil {
		t.Fatalf("flush: %v, %+v", err, j.Stats())
	}
}

// flushPutOff is flush where something is refused for now.
func flushPutOff(t *testing.T, j *Journal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := j.Flush(ctx); !errors.Is(err, ErrPutOff) {
		t.Fatalf("flush: %v, want ErrPutOff, %+v", err, j.Stats())
	}
}

func value[T any](t *testing.T, pg *testenv.PG, query string, args ...any) T {
	t.Helper()
	return testenv.Value[T](t, pg, query, args...)
}

// rowsText is the result of a query as one text, for comparisons.
func rowsText(t *testing.T, pg *testenv.PG, query string) string {
	t.Helper()
	return value[string](t, pg, "SELECT coalesce(string_agg(q::text, E'\\n'), '') FROM ("+query+") q")
}

func replaceOne(text, with string) string { return strings.Replace(text, "%s", with, 1) }
