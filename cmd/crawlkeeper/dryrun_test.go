package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/manager"
	"crawlkeeper/sql"
)

const dryrunConfig = `
manager: {disabled: stop}
adapters:
  page:
    command: [scrapy, crawl, "{code}", "--token=hush", "http://u:hush@host/"]
    dir: /srv
  stock: {command: [crawl, "{code}"], tick: scrapy-redis}
`

func dryrunWorld(t *testing.T) (pg *testenv.PG, server *testenv.RedisServer, environ []string) {
	t.Helper()
	pg, server = migratedDatabase(t), testenv.Redis(t)
	file := filepath.Join(t.TempDir(), "crawlkeeper.yaml")
	if err := os.WriteFile(file, []byte(dryrunConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	pg.Exec(t, `
INSERT INTO sources (code, collector, adapter, enabled, interval_seconds) VALUES
  ('plain', 'news', 'page', true, 60), ('disabled', 'news', 'page', false, 60), ('halted', 'news', 'page', true, 60),
  ('nourl', 'news', 'stock', true, 60), ('cron', 'news', 'page', true, 60), ('nobody', 'news', 'other', true, 60),
  ('a b', 'news', 'page', true, 60), ('sleeps', 'news', 'page', true, 60), ('elsewhere', 'books', 'page', true, 60);
UPDATE sources SET paused_until = '9999-01-01Z' WHERE code = 'sleeps';
INSERT INTO crawl_source_options (code, schedule, wanted) VALUES ('cron', '0 3 1 1 *', NULL), ('halted', NULL, 'stopped');
INSERT INTO crawl_runs (source_code, status, trigger, started_at) VALUES
  ('plain', 'running', 'schedule', now()), ('plain', 'running', 'backfill', now()), ('plain', 'running', NULL, now()),
  ('plain', 'succeeded', 'schedule', now()), ('elsewhere', 'running', 'schedule', now());
`)
	return pg, server, append(serversAt(server.URL(), pg.URL()), "CRAWLKEEPER_CONFIG="+file)
}

func TestDryRunShowsWhatWouldHappen(t *testing.T) {
	t.Parallel()
	pg, server, environ := dryrunWorld(t)
	r := call(t, environ, "run", "--dry-run", "--json").want(t, exitDone, "", "")
	var p preview
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range p.Sources {
		got[s.Code] = strings.Join([]string{map[bool]string{true: "starts", false: "none"}[s.Starts], s.Why}, ": ")
	}
	for code, want := range map[string]string{
		"plain": "starts: ", "cron": "starts: ", "sleeps": "starts: ",
		"disabled": "none: disabled", "halted": "none: stopped by a command, until start",
		"nourl":  "starts: no ticks: no url: set `url` in the source's payload or in its adapter",
		"nobody": `none: there is no adapter "other" in the configuration, and no "*"`,
	} {
		if got[code] != want {
			t.Errorf("%s: %q, want %q", code, got[code], want)
		}
	}
	if len(got) != 8 || !strings.HasPrefix(got["a b"], "none: ") {
		t.Errorf("%q", got)
	}
	if len(p.Marks) != 1 || p.Marks[0].Source != "plain" || p.Marks[0].Trigger != "schedule" {
		t.Errorf("marks: %+v", p.Marks)
	}
	if strings.Contains(r.stdout, "hush") {
		t.Errorf("a secret is shown:\n%s", r.stdout)
	}

	r = call(t, environ, "run", "--dry-run").want(t, exitDone, "8 sources would be managed, 4 crawlers started, 1 run marked as interrupted.", "")
	for _, want := range []string{"at its start", "none: paused", "/srv", "scrapy crawl plain"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	nothingChanged(t, pg, server)
}

func nothingChanged(t *testing.T, pg *testenv.PG, server *testenv.RedisServer) {
	t.Helper()
	if n := testenv.Value[int](t, pg, `SELECT count(*)::int FROM crawl_runs WHERE status = 'running'`); n != 4 {
		t.Errorf("%d runs are running", n)
	}
	if n := testenv.Value[int](t, pg, `SELECT (SELECT count(*) FROM crawl_processes)::int + (SELECT count(*) FROM crawl_logs)::int`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	if keys := server.Client(t).Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("keys %q", keys)
	}
}

func TestDryRunWithoutRedis(t *testing.T) {
	t.Parallel()
	_, _, environ := dryrunWorld(t)
	environ = slices.Insert(environ, len(environ), "CRAWLKEEPER_REDIS_URL=redis://127.0.0.1:1")
	call(t, environ, "run", "--dry-run").want(t, exitDone, "8 sources would be managed", "`run` would wait for it")
}

func TestFirstTick(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)
	page, waiting := configs.Adapter{Tick: configs.TickPlain}, configs.Adapter{Tick: configs.TickPlain, OnStart: configs.OnStartWait}
	every := sql.Source{Enabled: true, IntervalSeconds: new(60)}
	cron := sql.Source{Enabled: true, Schedule: "0 12 * * *"}
	paused := every
	paused.PausedUntil = now.Add(time.Hour)
	for name, test := range map[string]struct {
		row     sql.Source
		adapter configs.Adapter
		lastDue time.Time
		want    time.Time // zero: none
	}{
		"interval":             {every, page, time.Time{}, now},
		"interval that waits":  {every, waiting, time.Time{}, now.Add(time.Minute)},
		"paused":               {paused, page, time.Time{}, now.Add(time.Hour)},
		"cron":                 {cron, page, time.Time{}, now.Add(79 * time.Minute)},
		"cron at the start":    {cron, configs.Adapter{OnStart: configs.OnStartTick}, time.Time{}, now},
		"cron that was missed": {cron, page, now.Add(-72 * time.Hour), now},
		"cron that is skipped": {cron, configs.Adapter{Misfire: configs.MisfireSkip}, now.Add(-72 * time.Hour), now.Add(79 * time.Minute)},
		"cron in time":         {cron, page, now.Add(79*time.Minute - 24*time.Hour), now.Add(79 * time.Minute)},
		"cron that is none":    {sql.Source{Enabled: true, Schedule: "often"}, page, time.Time{}, time.Time{}},
		"no interval":          {sql.Source{Enabled: true}, page, time.Time{}, time.Time{}},
		"absurd interval":      {sql.Source{Enabled: true, IntervalSeconds: new(1 << 40)}, page, time.Time{}, time.Time{}},
	} {
		got, err := manager.FirstTick(test.row, test.adapter, test.lastDue, now)
		if !got.Equal(test.want) || (err != nil) != test.want.IsZero() {
			t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
		}
	}
}
