package sql

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"crawlkeeper/internal/testenv"
)

func TestOpenRuns(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO crawl_runs (source_code, status, trigger, started_at) VALUES
		('a', 'running', 'schedule', '2026-11-29 12:00:02+00'), ('a', 'running', 'schedule', '2026-11-29 12:00:01+00'), ('a', 'failed', 'schedule', '2026-11-29 12:00:00+00'),
		('b', 'running', 'backfill', now()), ('b', 'running', null, now()), ('b', 'running', 'schedule', null), ('c', 'succeeded', 'schedule', now()),
		('other', 'running', 'schedule', now())`)
	got, err := open(t, pg).OpenRuns(t.Context(), []string{"a", "b", "c", "missing"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]time.Time{"a": at(1)}, got, cmp.Transformer("text", func(t time.Time) string { return t.UTC().Truncate(time.Second).String() })); diff != "" {
		t.Error(diff)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"bigint": "7", "uuid": "01234567-89ab-7def-8123-456789abcdef"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := migrated(t)
			if name == "uuid" {
				pg.Exec(t, "ALTER TABLE crawl_runs ALTER id DROP DEFAULT, ALTER id TYPE uuid USING gen_random_uuid(), ALTER started_at TYPE timestamp")
			}
			pg.Exec(t, "INSERT INTO crawl_runs (id, source_code, status, trigger, started_at, finished_at, error) VALUES ('"+id+"', 'a', 'failed', 'schedule', '2026-11-29 12:00:01.123456+00', '2026-11-29 12:00:02.123456+00', 'oh')")
			pg.Exec(t, "INSERT INTO crawl_run_facts VALUES ('"+id+"', 'tick', 'process', 3, 4)")
			if name == "bigint" {
				pg.Exec(t, "INSERT INTO crawl_runs (source_code, status, started_at) VALUES ('a', 'running', '2026-11-29 11:00:00+00'), (null, null, null)")
			}
			store := open(t, pg)
			items, pages := int64(3), int64(4)
			want := CrawlRun{ID: id, Source: "a", Status: "failed", Trigger: "schedule", StartedAt: at(1), FinishedAt: at(2), Error: "oh",
				TickID: "tick", ProcessID: "process", Items: &items, Pages: &pages}
			for _, f := range []RunFilter{{Limit: 1}, {Status: "failed"}, {Since: at(0)}, {Source: "a", Limit: 1}} {
				got, err := store.Runs(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]CrawlRun{want}, got); diff != "" {
					t.Errorf("%+v: %s", f, diff)
				}
			}
			if all, err := store.Runs(t.Context(), RunFilter{}); err != nil || name == "bigint" && len(all) != 3 {
				t.Errorf("all: %v, %v", all, err)
			}
		})
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO crawl_logs (source_code, level, message, created_at) VALUES ('a', 'INFO', '1', '2026-11-29 12:00:01.123456+00'),
		('a', 'ERROR', '2', '2026-11-29 12:00:02.123456+00'), ('b', 'WARNING', '3', '2026-11-29 12:00:03.123456+00'), ('b', null, 'no time', null)`)
	store := open(t, pg)
	for _, c := range []struct {
		filter LogFilter
		want   string
	}{
		{LogFilter{}, "no time123"},
		{LogFilter{Limit: 2}, "23"},
		{LogFilter{Source: "a"}, "12"},
		{LogFilter{Levels: []string{"WARNING", "ERROR"}}, "23"},
		{LogFilter{Since: at(2)}, "23"},
	} {
		rows, err := store.Logs(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, row := range rows {
			got.WriteString(row.Message)
		}
		if got.String() != c.want {
			t.Errorf("%+v: %q, want %q", c.filter, got.String(), c.want)
		}
	}
}

func TestFollowLogs(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	migrate(t, pg)
	insert := func(message string, age time.Duration) {
		pg.Exec(t, "INSERT INTO crawl_logs (message, created_at) VALUES ($1, $2)", message, time.Now().Add(-age))
	}
	insert("cut off", 3*time.Second)
	insert("first", 2*time.Second)
	insert("second", time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	failed := false
	for row, err := range open(t, pg).FollowLogs(ctx, LogFilter{Limit: 2}, 20*time.Millisecond) {
		if err != nil {
			if !failed {
				failed = true
				pg.Start(t)
				insert("after the outage", 0)
			}
			continue
		}
		got = append(got, row.Message)
		switch row.Message {
		case "second":
			insert("new", 0)
		case "new":
			insert("late", time.Second)
		case "late":
			pg.Stop(t)
		case "after the outage":
			cancel()
		}
	}
	if diff := cmp.Diff([]string{"first", "second", "new", "late", "after the outage"}, got); diff != "" {
		t.Error(diff)
	}
}
