package feed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	source  = "demo-a"
	ticks   = "crawler:demo-a:start_urls"
	beatKey = "crawler:demo-a:heartbeat"
	soon    = 60 * time.Second
)

// migrate applies the migrations to a database, after the statements of before,
// which may make shared tables of another shape.
func migrate(ctx context.Context, url, before string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	files, err := filepath.Glob("../../sql/migrations/*.sql")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no migrations: %v", err) //nolint:errorlint // it may be nil
	}
	statements := []string{before}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		statements = append(statements, up)
	}
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%w in %s", err, statement)
		}
	}
	_, err = conn.Exec(ctx, "INSERT INTO sources (code, enabled, consecutive_failures, history_done) VALUES ($1, true, 0, false)", source)
	return err
}

// world is what one crawler needs, and its test's view of it.
type world struct {
	t     *testing.T
	pg    *testenv.PG
	redis *testenv.RedisServer
	rdb   *redis.Client
	opts  Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	pg := testenv.PostgresFrom(t, "feed", func(ctx context.Context, url string) error { return migrate(ctx, url, "") })
	return worldOn(t, pg)
}

// newWorldWith has shared tables of another shape.
func newWorldWith(t *testing.T, tables string) *world {
	t.Helper()
	pg := testenv.Postgres(t)
	if err := migrate(t.Context(), pg.URL(), tables); err != nil {
		t.Fatal(err)
	}
	return worldOn(t, pg)
}

func worldOn(t *testing.T, pg *testenv.PG) *world {
	t.Helper()
	server := testenv.Redis(t)
	return &world{
		t: t, pg: pg, redis: server, rdb: server.Client(t),
		opts: Options{
			Source: source, RedisURL: server.URL(), PostgresURL: pg.URL(), StartURLsKey: ticks,
			ProcessID: "process-1", Logger: testenv.Logger(t),
			Limits: Limits{Total: 20 * time.Second, Read: 10 * time.Second, Bytes: 1 << 20},
		},
	}
}

// start runs a crawler until the end of the test or until stop, which returns how
// long the crawler took to end.
func (w *world) start() (stop func() time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, w.opts) }()
	stopped := false
	stop = func() time.Duration {
		if stopped {
			return 0
		}
		stopped = true
		began := time.Now()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				w.t.Errorf("Run: %v", err)
			}
		case <-time.After(soon):
			w.t.Error("the crawler does not end")
		}
		return time.Since(began)
	}
	w.t.Cleanup(func() { stop() })
	return stop
}

func (w *world) push(tick string, args ...any) {
	w.t.Helper()
	if err := w.rdb.LPush(w.t.Context(), ticks, fmt.Sprintf(tick, args...)).Err(); err != nil {
		w.t.Fatal(err)
	}
}

// row reads one value as text; null is "null".
func (w *world) row(sql string, args ...any) string {
	w.t.Helper()
	return testenv.Value[string](w.t, w.pg, "SELECT coalesce(("+sql+")::text, 'null')", args...)
}

func (w *world) want(want, sql string, args ...any) {
	w.t.Helper()
	if got := w.row(sql, args...); got != want {
		w.t.Errorf("%s: got %s, want %s", sql, got, want)
	}
}

// closed waits until so many runs of the source are closed.
func (w *world) closed(count int) {
	w.t.Helper()
	testenv.Eventually(w.t, soon, fmt.Sprintf("%d runs closed", count), func() bool {
		return w.row("SELECT count(*) FROM crawl_runs WHERE status <> 'running' AND finished_at IS NOT NULL") == fmt.Sprint(count)
	})
}

const (
	lastStatus = "SELECT status FROM crawl_runs ORDER BY started_at DESC LIMIT 1"
	lastError  = "SELECT error FROM crawl_runs ORDER BY started_at DESC LIMIT 1"
	itemCount  = "SELECT count(*) FROM crawl_feed_items"
	failures   = "SELECT consecutive_failures FROM sources"
)
