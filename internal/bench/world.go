package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"go.yaml.in/yaml/v4"

	"crawlkeeper/internal/testenv/servers"
	"crawlkeeper/sql"
	"crawlkeeper/worker/process"
)

const database = "bench"

// world is everything around one manager.
type world struct {
	n        int
	options  options
	setup    setup
	env      *servers.Env
	redis    *servers.Redis
	postgres *servers.Postgres
	client   *redis.Client
	admin    *pgx.Conn // to another database, so that it does not count
	starts   *starts
	config   string
}

// setup is what worlds differ in, beside the number of sources.
type setup struct {
	interval time.Duration
	disabled bool           // no source is enabled, and none has a crawler
	command  []string       // of the crawler; nil is the shell that waits
	output   map[string]any // of the adapter; nil is the default
	sql      string         // to be done when the sources are there
}

func code(i int) string { return fmt.Sprintf("src%05d", i) }

func newWorld(ctx context.Context, env *servers.Env, o options, n int, s setup) (*world, error) {
	w := &world{n: n, options: o, setup: s, env: env}
	var err error
	if w.redis, err = env.StartRedis(ctx); err != nil {
		return nil, err
	}
	if w.postgres, err = env.StartPostgres(ctx, servers.PostgresOptions{}); err != nil {
		return nil, err
	}
	if w.starts, err = newStarts(env.Dir(), n); err != nil {
		return nil, err
	}
	w.client = redis.NewClient(&redis.Options{Addr: w.redis.Addr(), ContextTimeoutEnabled: true})
	if w.admin, err = pgx.Connect(ctx, w.postgres.URL("postgres")); err != nil {
		return nil, fmt.Errorf("connect to postgres: %w", err)
	}
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	return w, w.configure()
}

func (w *world) close() {
	_ = w.client.Close()
	_ = w.admin.Close(context.Background())
	w.starts.close()
}

// fill makes the tables and the sources.
func (w *world) fill(ctx context.Context) error {
	if err := w.postgres.Exec(ctx, "postgres", "CREATE DATABASE "+database); err != nil {
		return err
	}
	if _, err := sql.Migrate(ctx, w.postgres.URL(database), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	return w.postgres.Exec(ctx, database, fmt.Sprintf(`INSERT INTO sources
		(code, collector, adapter, enabled, interval_seconds, backfill_hours, history_done, consecutive_failures)
		SELECT 'src' || lpad(i::text, 5, '0'), 'news', 'bench', %t, %d, 24, false, 0 FROM generate_series(0, %d) i;`,
		!w.setup.disabled, int(w.setup.interval/time.Second), w.n-1)+w.setup.sql)
}

func (w *world) configure() error {
	adapter := map[string]any{"command": []string{servers.LookPath("sh"), "-c", script, "{code}"}}
	if w.setup.command != nil {
		adapter["command"] = w.setup.command
	}
	if w.setup.output != nil {
		adapter["output"] = w.setup.output
	}
	manager := map[string]any{"name": "bench"}
	if w.setup.disabled {
		manager["disabled"] = "stop"
	}
	text, err := yaml.Marshal(map[string]any{
		"redis":    map[string]any{"url": w.redis.URL()},
		"postgres": map[string]any{"url": w.postgres.URL(database)},
		"manager":  manager,
		"http":     map[string]any{"listen": "127.0.0.1:0"},
		"adapters": map[string]any{"bench": adapter},
	})
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	w.config = filepath.Join(w.env.Dir(), "crawlkeeper.yaml")
	if err := os.WriteFile(w.config, text, 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// runner starts programs through a spawner, which lives until close.
type runner struct {
	*process.Spawner
	stop context.CancelFunc
	done sync.WaitGroup
}

func (w *world) newRunner(ctx context.Context) (*runner, error) {
	restore, err := setTemp(w.env.Dir()) // for its lock file
	if err != nil {
		return nil, err
	}
	defer restore()
	spawner, err := process.New(process.Options{Name: "bench", Scope: w.env.Dir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx)) // the thread that forks has to outlive what it forked
	r := &runner{Spawner: spawner, stop: stop}
	r.done.Go(func() { _ = spawner.Run(life) })
	return r, nil
}

// setTemp changes TMPDIR until restore is called: this program and those that it measures go on with the one that they were given.
func setTemp(dir string) (restore func(), err error) {
	before, was := os.LookupEnv("TMPDIR")
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return nil, fmt.Errorf("set TMPDIR: %w", err)
	}
	return func() {
		if was {
			_ = os.Setenv("TMPDIR", before) // what was set can be set
			return
		}
		_ = os.Unsetenv("TMPDIR")
	}, nil
}

func (r *runner) close() {
	r.stop()
	r.done.Wait()
}

// managed is a manager under measurement.
type managed struct {
	*process.Process
	runner *runner
	began  time.Time
}

// withManager starts a manager for as long as measure takes.
func (w *world) withManager(ctx context.Context, measure func(managed) error) error {
	r, err := w.newRunner(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	began := time.Now()
	p, err := w.begin(ctx, r, "manager", "run")
	if err != nil {
		return err
	}
	defer func() {
		_ = p.Kill()
		_, _ = p.Sweep(context.WithoutCancel(ctx))
	}()
	if err := measure(managed{p, r, began}); err != nil {
		return w.logTail(err)
	}
	return nil
}

// begin starts the measured program. What it prints goes into a file of that name.
func (w *world) begin(ctx context.Context, r *runner, name string, args ...string) (*process.Process, error) {
	log, err := os.Create(filepath.Join(w.env.Dir(), name+".log"))
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	program, err := filepath.Abs(w.options.program)
	if err != nil {
		return nil, fmt.Errorf("find program: %w", err)
	}
	environ := append(os.Environ(), w.starts.environ()...)
	return r.Start(ctx, process.Spec{
		ID: "bench-" + name, Argv: append([]string{program}, append(args, "--config", w.config)...),
		Env: append(environ, "TMPDIR="+w.env.Dir()), Stdout: log, Stderr: log,
	})
}

// logTail explains an error by the end of the manager's log.
func (w *world) logTail(err error) error {
	text, _ := os.ReadFile(filepath.Join(w.env.Dir(), "manager.log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return errors.Join(err, errors.New(strings.Join(lines[max(0, len(lines)-10):], "\n")))
}
