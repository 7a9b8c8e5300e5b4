package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker/output"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patience is how long a test waits for what should take a moment. The machines are shared and slow; no test asserts
// on speed.
const patience = 3 * time.Minute

// world is a database, a Redis and a configuration for managers of one test.
type world struct {
	t     *testing.T
	pg    *testenv.PG
	redis *testenv.RedisServer
	rdb   *redis.Client
	conf  string // file
	text  string
	log   *slog.Logger // of its managers; nil: the test's
}

// standin is the adapter of tests: the stand-in crawler with flags, reporting to the list "starts".
func standin(t *testing.T, name string, flags ...string) string {
	t.Helper()
	argv, err := json.Marshal(append([]string{testenv.StandIn(t), "-code", "{code}"}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  %q: {command: %s, pass_urls: true, stop_timeout: 2s, backoff: {min: 200ms, max: 1s, stable: 60s, jitter: 0}, env: {STANDIN_LIST: starts}}\n", name, argv)
}

func migrated(t *testing.T) *testenv.PG {
	t.Helper()
	return testenv.PostgresFrom(t, "migrated", migrate)
}

func migrate(ctx context.Context, url string) error {
	_, err := sql.Migrate(ctx, url, slog.New(slog.DiscardHandler))
	return err
}

// newWorld has the adapters that are given; without any, the stand-in for all sources.
func newWorld(t *testing.T, adapters ...string) *world {
	t.Helper()
	return worldOf(t, migrated(t), testenv.Redis(t), adapters...)
}

func worldOf(t *testing.T, pg *testenv.PG, r *testenv.RedisServer, adapters ...string) *world {
	t.Helper()
	if len(adapters) == 0 {
		adapters = []string{standin(t, "*")}
	}
	w := &world{t: t, pg: pg, redis: r, rdb: r.Client(t), conf: filepath.Join(t.TempDir(), "crawlkeeper.yaml")}
	w.configure(`manager: {name: test, status_interval: 100ms, status_ttl: 3s}`, adapters...)
	return w
}

func (w *world) configure(head string, adapters ...string) {
	w.text = fmt.Sprintf("redis: {url: %q}\npostgres: {url: %q}\nhttp: {listen: \"127.0.0.1:0\"}\n%s\nadapters:\n%s",
		w.redis.URL(), w.pg.URL(), head, strings.Join(adapters, ""))
	w.write(w.text)
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.conf, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// source inserts sources that are crawled once an hour.
func (w *world) source(codes ...string) {
	for _, code := range codes {
		w.pg.Exec(w.t, `insert into sources(code,collector,adapter,enabled,interval_seconds,backfill_hours,history_done,consecutive_failures)
			values ($1,'news','builtin',true,3600,24,false,3)`, code)
	}
}

// running is a manager that runs in this process.
type running struct {
	*Manager
	w    *world
	stop context.CancelFunc
	kill chan struct{}
	done chan error
}

// start runs a manager until the test ends, or stop is called.
func (w *world) start() *running {
	w.t.Helper()
	load := func() (*configs.Config, error) { return configs.Load(w.conf, nil) }
	conf, err := load()
	if err != nil {
		w.t.Fatal(err)
	}
	options, err := redis.ParseURL(conf.Redis.URL.Reveal())
	if err != nil {
		w.t.Fatal(err)
	}
	options.MaxRetries = -1
	options.DialerRetries, options.ContextTimeoutEnabled = 1, true
	logger := cmp.Or(w.log, testenv.Logger(w.t))
	client := redis.NewClient(options)
	store, err := sql.Open(context.Background(), conf.Postgres.URL.Reveal(), logger)
	if err != nil {
		w.t.Fatal(err)
	}
	kill := make(chan struct{})
	devNull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := New(Options{
		Config: conf, Load: load, Redis: client, Store: store, Environ: os.Environ(), Logger: logger, Kill: kill,
		Forwarder: output.NewForwarder(devNull, output.Text),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Manager: m, w: w, stop: cancel, kill: kill, done: make(chan error, 1)}
	go func() {
		err := m.Run(ctx)
		store.Close()
		client.Close()
		devNull.Close()
		r.done <- err
	}()
	w.t.Cleanup(func() { cancel(); <-r.done; close(r.done) })
	return r
}

// end stops the manager and returns what it ended with.
func (r *running) end() error {
	r.stop()
	err := <-r.done
	r.done <- err
	return err
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testenv.Eventually(t, patience, what, ok)
}

// records reads the status hash.
func (w *world) records() map[string]status.Record {
	records, err := status.Read(context.Background(), w.rdb, "crawler:status")
	if err != nil {
		return nil
	}
	return records
}

// phase waits until a source is in a phase, and returns its record.
func (w *world) phase(code, phase string) status.Record {
	w.t.Helper()
	var r status.Record
	eventually(w.t, code+" is "+phase, func() bool { r = w.records()[code]; return r.Phase == phase })
	return r
}

// start of a crawler, as the stand-in reported it.
type report struct {
	code string
	pid  int
}

// reports waits for n starts and takes them off the list.
func (w *world) reports(n int) []report {
	w.t.Helper()
	var out []report
	eventually(w.t, fmt.Sprintf("%d starts", n), func() bool {
		for {
			text, err := w.rdb.LPop(context.Background(), "starts").Result()
			if err != nil {
				return len(out) >= n
			}
			f := strings.Fields(text)
			pid, _ := strconv.Atoi(f[1])
			out = append(out, report{f[0], pid})
		}
	})
	if len(out) != n {
		w.t.Fatalf("%d starts, want %d: %v", len(out), n, out)
	}
	return out
}

// none checks that no crawler was started meanwhile.
func (w *world) none() {
	w.t.Helper()
	if n := w.rdb.LLen(context.Background(), "starts").Val(); n != 0 {
		w.t.Errorf("%d starts too many", n)
	}
}

// command sends a command and returns the reply.
func (w *world) command(c control.Command) control.Reply {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sender := control.Sender{Client: w.rdb, Control: "crawler:control", Replies: "crawler:replies"}
	var r control.Reply
	eventually(w.t, "somebody takes "+c.Action, func() bool { // at its start a manager is not subscribed yet
		var err error
		if r, err = sender.Send(ctx, c); err != nil && !errors.Is(err, control.ErrNoManager) {
			w.t.Fatalf("%s: %v", c.Action, err)
		}
		return err == nil
	})
	return r
}

func (w *world) must(c control.Command) control.Reply {
	w.t.Helper()
	r := w.command(c)
	if !r.OK {
		w.t.Fatalf("%s: %+v", c.Action, r)
	}
	return r
}

// tickOf waits for the tick that lies in a source's list, and takes it.
func (w *world) tickOf(code string) string {
	w.t.Helper()
	var tick string
	eventually(w.t, "a tick for "+code, func() bool {
		var err error
		tick, err = w.rdb.LPop(context.Background(), "crawler:"+code+":start_urls").Result()
		return err == nil
	})
	return tick
}

func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	i := strings.LastIndexByte(string(data), ')')
	return data[i+2] != 'Z' && data[i+2] != 'X'
}

// ask calls a function in the fleet's goroutine and waits for it.
func (r *running) ask(ctx context.Context, do func()) {
	query(ctx, r.fleet, func() struct{} { do(); return struct{}{} })
}
