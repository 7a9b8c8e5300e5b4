package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// patience is how long a test waits for what should take a moment. The machines are shared and slow.
const patience = 60 * time.Second

// world is what one test plays in: servers of its own and a folder for what its programs leave.
type world struct {
	t       *testing.T
	pg      *testenv.PG
	redis   *testenv.RedisServer
	rdb     *redis.Client
	db      *pgx.Conn // of the test itself
	spawner *process.Spawner
	conf    string // configuration file
	tmp     string // temporary folder of its managers

	as []string // what its managers are started through, to be somebody else
}

// newWorld has a database that was migrated.
func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOf(t, testenv.PostgresFrom(t, "migrated", func(ctx context.Context, url string) error {
		_, err := sql.Migrate(ctx, url, slog.New(slog.DiscardHandler))
		return err
	}))
}

func worldOf(t *testing.T, pg *testenv.PG) *world {
	t.Helper()
	server := testenv.Redis(t)
	return &world{
		t: t, pg: pg, redis: server, rdb: server.Client(t), db: pg.Conn(t), spawner: newSpawner(t),
		conf: filepath.Join(t.TempDir(), "crawlkeeper.yaml"), tmp: t.TempDir(),
	}
}

// quick lets crawlers come back soon after a crash.
const quick = "stop_timeout: 5s, backoff: {min: 200ms, max: 1s, jitter: 0}"

// adapter is one line of a configuration.
func adapter(t *testing.T, name, settings string, command ...string) string {
	t.Helper()
	argv, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  %q: {command: %s, pass_urls: true, %s}\n", name, argv, settings)
}

func (w *world) configure(adapters ...string) {
	w.t.Helper()
	if err := os.WriteFile(w.conf, []byte("adapters:\n"+strings.Join(adapters, "")), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// environ is the environment of programs: where the servers are, and nothing that this process was told of others.
func (w *world) environ(more ...string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "CRAWLKEEPER_") {
			env = append(env, entry)
		}
	}
	env = append(env, "CRAWLKEEPER_REDIS_URL="+w.redis.URL(), "CRAWLKEEPER_POSTGRES_URL="+w.pg.URL(), "CRAWLKEEPER_LOG_FORMAT=text")
	return append(env, more...)
}

// source inserts a source with the address that it crawls. No adapter is null, as in old databases.
func (w *world) source(code, adapter, url string, every time.Duration) {
	w.t.Helper()
	w.pg.Exec(w.t, `insert into sources (code, collector, adapter, enabled, interval_seconds) values ($1, 'news', nullif($2, ''), true, $3)`,
		code, adapter, int(every/time.Second))
	w.payload(code, url)
}

// payload sets the address that a source crawls.
func (w *world) payload(code, url string) {
	w.t.Helper()
	w.pg.Exec(w.t, `insert into crawl_source_options (code, payload) values ($1, jsonb_build_object('url', $2::text))
		on conflict (code) do update set payload = excluded.payload`, code, url)
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	testenv.Eventually(w.t, patience, what, ok)
}

// value reads one value of one row. Only the goroutine of the test may.
func value[T any](w *world, query string, args ...any) T {
	w.t.Helper()
	var v T
	if err := w.db.QueryRow(w.t.Context(), query, args...).Scan(&v); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return v
}

// holds asks the database a question; no answer (null, or no row that is asked of) is no.
func (w *world) holds(question string, args ...any) bool {
	w.t.Helper()
	return value[bool](w, `select coalesce((`+question+`), false)`, args...)
}

// until waits until the answer is yes.
func (w *world) until(what, question string, args ...any) {
	w.t.Helper()
	w.eventually(what, func() bool { return w.holds(question, args...) })
}

// record is what the status hash says about a source.
func (w *world) record(code string) status.Record {
	records, err := status.Read(w.t.Context(), w.rdb, "crawler:status")
	if err != nil {
		w.t.Fatal(err)
	}
	return records[code]
}

// running waits until a crawler runs that has not one of these pids.
func (w *world) running(code string, but ...int) status.Record {
	w.t.Helper()
	var r status.Record
	w.eventually("a crawler of "+code+" runs", func() bool {
		r = w.record(code)
		return r.Pid != 0 && r.Phase == "running" && !slices.Contains(but, r.Pid)
	})
	return r
}

// run is a row of crawl_runs.
type run struct {
	id, status, trigger, error string
	started, finished          time.Time
}

const runColumns = `select id::text, status, coalesce(trigger, ''), coalesce(error, ''), started_at, coalesce(finished_at, 'epoch') from crawl_runs `

// openRun waits for the run of a source that is under way.
func (w *world) openRun(code string) run {
	w.t.Helper()
	w.until("a run of "+code+" is open", `select exists (select from crawl_runs where source_code = $1 and status = 'running')`, code)
	return w.oneRun(`where source_code = $1 and status = 'running'`, code)
}

// ended waits until a run is closed or marked.
func (w *world) ended(id string) run {
	w.t.Helper()
	w.until("run "+id+" has ended", `select status <> 'running' from crawl_runs where id::text = $1`, id)
	return w.oneRun(`where id::text = $1`, id)
}

// succeeded waits for a run of a source that began after a moment and succeeded.
func (w *world) succeeded(code string, after time.Time) run {
	w.t.Helper()
	w.until("a run of "+code+" succeeds", `select exists (select from crawl_runs where source_code = $1 and status = 'succeeded' and started_at > $2)`, code, after)
	return w.oneRun(`where source_code = $1 and status = 'succeeded' and started_at > $2 order by started_at limit 1`, code, after)
}

func (w *world) oneRun(where string, args ...any) run {
	w.t.Helper()
	var r run
	err := w.db.QueryRow(w.t.Context(), runColumns+where, args...).Scan(&r.id, &r.status, &r.trigger, &r.error, &r.started, &r.finished)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// guids of what is stored for a source.
func (w *world) guids(code string) []string {
	w.t.Helper()
	return value[[]string](w, `select coalesce(array_agg(guid order by guid collate "C"), '{}') from crawl_feed_items where source = $1`, code)
}

// replies hands over what managers answer, until the test ends.
func replies(t *testing.T, client *redis.Client, heard func(text string)) {
	t.Helper()
	sub := client.Subscribe(t.Context(), "crawler:replies")
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			message, err := sub.ReceiveMessage(context.Background())
			if err != nil {
				return
			}
			heard(message.Payload)
		}
	})
	t.Cleanup(func() { _ = sub.Close(); done.Wait() })
}
