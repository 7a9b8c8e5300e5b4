package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"go.yaml.in/yaml/v4"

	"crawlkeeper/configs"
	"crawlkeeper/internal/demosite"
	"crawlkeeper/internal/testenv/servers"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

const demoDatabase = "postgres"

// demoWorld is everything around the manager of a demo.
type demoWorld struct {
	env      *servers.Env
	redis    *servers.Redis
	postgres *servers.Postgres
	site     *demosite.Site
	client   *redis.Client
	file     string // the manager's configuration
	config   *configs.Config
	program  string // this one
	demoCrawlers
}

// newDemoWorld starts the servers, makes tables and sources, takes the site's port and writes the configuration.
func newDemoWorld(ctx context.Context, env *servers.Env, program string, crawlers demoCrawlers) (*demoWorld, error) {
	w := &demoWorld{env: env, program: program, demoCrawlers: crawlers}
	var err error
	if w.redis, err = env.StartRedis(ctx); err != nil {
		return nil, err
	}
	if w.postgres, err = env.StartPostgres(ctx, servers.PostgresOptions{}); err != nil {
		return nil, err
	}
	if w.site, err = demosite.New(demosite.Options{Seed: 1}); err != nil {
		return nil, err
	}
	if err := errors.Join(w.seed(ctx), w.writeConfig()); err != nil {
		return nil, errors.Join(err, w.site.Close())
	}
	w.client = redis.NewClient(&redis.Options{Addr: w.redis.Addr(), ContextTimeoutEnabled: true})
	return w, nil
}

func (w *demoWorld) close() {
	_ = w.client.Close()
	_ = w.site.Close()
}

// seed fills the database.
func (w *demoWorld) seed(ctx context.Context) error {
	url := w.postgres.URL(demoDatabase)
	logger := slog.New(slog.DiscardHandler)
	if _, err := sql.Migrate(ctx, url, logger); err != nil {
		return err
	}
	store, err := sql.Open(ctx, url, logger)
	if err != nil {
		return err
	}
	defer store.Close()
	var edits []sql.SourceEdit
	for _, s := range w.sources {
		payload, err := json.Marshal(map[string]string{"url": s.url(w.site)})
		if err != nil {
			return fmt.Errorf("encode payload: %w", err)
		}
		edit := sql.SourceEdit{
			Code: s.code, Adapter: sql.Some(s.adapter), Enabled: sql.Some(true),
			IntervalSeconds: sql.Some(int(s.every / time.Second)), BackfillHours: sql.Some(1),
			Payload: sql.Some(json.RawMessage(payload)),
		}
		if s.history {
			edit.HistoryTarget = sql.Some(time.Now().Add(-demoPast).UTC().Format(time.RFC3339))
		}
		edits = append(edits, edit)
	}
	_, err = store.Apply(ctx, configs.Default().Manager.Collector, edits)
	return err
}

// writeConfig writes the manager's configuration and reads it back, as the manager will.
func (w *demoWorld) writeConfig() error {
	port, err := w.env.FreePort()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(map[string]any{
		"redis":    map[string]any{"url": w.redis.URL()},
		"postgres": map[string]any{"url": w.postgres.URL(demoDatabase)},
		"manager":  map[string]any{"name": "demo"},
		"http":     map[string]any{"listen": fmt.Sprintf("127.0.0.1:%d", port)},
		"defaults": map[string]any{
			"pass_urls": true, "stop_timeout": "5s", "backoff": map[string]any{"min": "1s", "max": "10s"},
		},
		"adapters": w.adapters,
	})
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	w.file = filepath.Join(w.env.Dir(), "crawlkeeper.yaml")
	if err := os.WriteFile(w.file, text, 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	w.config, err = configs.Load(w.file, nil)
	return err
}

// waitUntilUp returns when the crawler of each source is up.
func (w *demoWorld) waitUntilUp(ctx context.Context, manager *demoManager) error {
	ctx, cancel := context.WithTimeout(ctx, w.upWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		up := 0
		records, err := status.Read(ctx, w.client, w.config.Redis.Status())
		for _, r := range records {
			if r.Pid != 0 && (!w.slow || tookTick(r)) {
				up++
			}
		}
		if err == nil && up == len(w.sources) {
			return nil
		}
		select {
		case <-tick.C:
		case <-manager.Exited():
			return manager.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait for the crawlers: %d of %d are up: %w\n%s", up, len(w.sources), context.Cause(ctx), manager.logTail())
		}
	}
}

// tookTick is true once the first tick went out and waits no more.
func tookTick(r status.Record) bool { return r.Trigger != "startup" && r.Queue == 0 }

// demoSource is a source of the demo.
type demoSource struct {
	code    string
	adapter string
	every   time.Duration
	url     func(*demosite.Site) string
	history bool // its past is crawled too
}
