package sql

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crawlkeeper/internal/testenv"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	store := open(t, pg)
	got, err := store.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.ServerVersion < 130000 || got.Role == "" {
		t.Errorf("%+v", got)
	}
	got.ServerVersion, got.Role = 0, ""
	latest, err := latestMigration()
	if err != nil {
		t.Fatal(err)
	}
	want := Shape{Encoding: "UTF8", Schema: "public", Migration: latest, Latest: latest, LogIDs: LogIDsGiven}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := value[int](t, pg, "SELECT count(*) FROM crawl_logs"); n != 0 {
		t.Errorf("the check left %d rows", n)
	}
	pg.Exec(t, fmt.Sprint("UPDATE crawlkeeper_goose SET version_id = 99 WHERE version_id = ", latest))
	if got, err := store.Check(t.Context()); err != nil || got.Migration != 99 {
		t.Errorf("newer than this program: %v, %+v", err, got)
	}
	pg.Exec(t, "DELETE FROM crawlkeeper_goose WHERE version_id = 99")
	if got, err := store.Check(t.Context()); !errors.Is(err, ErrNotMigrated) || got.Migration >= latest {
		t.Errorf("older than this program: %v, %+v", err, got)
	}
}

func TestCheckOfOtherShapes(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	store := open(t, pg)
	empty, err := store.Check(t.Context())
	if !errors.Is(err, ErrNotMigrated) || !slices.Equal(empty.MissingTables, []string{"crawl_logs", "crawl_runs", "sources"}) || empty.MissingColumns != nil {
		t.Errorf("an empty database: %v, %+v", err, empty)
	}
	pg.Exec(t, otherShape)
	pg.Exec(t, "DROP VIEW recent; ALTER TABLE crawl_logs ALTER message TYPE varchar(99); ALTER TABLE crawl_runs ALTER error TYPE char(7); ALTER TABLE sources DROP history_done")
	migrate(t, pg)
	got, err := store.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got.ServerVersion, got.Role = 0, ""
	latest, err := latestMigration()
	if err != nil {
		t.Fatal(err)
	}
	want := Shape{Encoding: "UTF8", Schema: "public", Migration: latest, Latest: latest, LogIDs: LogIDsNone,
		LogProblem:   "crawl_logs.id is of type integer and has no default",
		MessageLimit: 99, ErrorLimit: 7, MissingColumns: []string{"sources.history_done"},
		MissingDefaults: []string{"crawl_logs.id", "crawl_logs.created_at", "crawl_runs.id", "crawl_runs.started_at"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "INSERT INTO sources (code, collector) VALUES ('a', 'news')")
	if missing, err := open(t, pg).Rights(t.Context(), Pruned{Processes: true, Runs: true, Logs: true}); err != nil || len(missing) != 0 {
		t.Errorf("the owner misses %v, %v", missing, err)
	}

	role := "reader_" + strings.ReplaceAll(value[string](t, pg, "SELECT current_database()"), "-", "_")
	pg.Exec(t, "CREATE ROLE "+role+" LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+role+"; GRANT INSERT ON crawl_logs TO "+role+
		"; GRANT INSERT, UPDATE, DELETE ON crawl_processes TO "+role+"; DROP TABLE crawl_run_facts; ALTER TABLE crawl_runs DROP COLUMN error")
	t.Cleanup(func() { pg.Exec(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	address, err := url.Parse(pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.User(role)
	store, err := Open(t.Context(), address.String(), testenv.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	missing, err := store.Rights(t.Context(), Pruned{Runs: true, Logs: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range missing {
		if m.Reason == "" {
			t.Errorf("%s on %s has no reason", m.Action, m.Table)
		}
		got = append(got, m.Table+" "+m.Action+": "+strings.ReplaceAll(m.Fix, `"`+role+`"`, "ROLE"))
	}
	want := []string{
		"sources UPDATE: GRANT UPDATE ON sources TO ROLE",
		"crawl_runs SELECT: add the column, or put a view of this name in front of the table",
		"crawl_runs UPDATE: add the column, or put a view of this name in front of the table",
		"crawl_logs INSERT: GRANT INSERT ON crawl_logs TO ROLE, and USAGE on the sequence of its id",
		"crawl_source_options INSERT: GRANT INSERT ON crawl_source_options TO ROLE",
		"crawl_source_options UPDATE: GRANT UPDATE ON crawl_source_options TO ROLE",
		"crawl_source_options DELETE: GRANT DELETE ON crawl_source_options TO ROLE",
		"crawl_run_facts SELECT: run `crawlkeeper migrate`",
		"crawl_leaks INSERT: GRANT INSERT ON crawl_leaks TO ROLE",
		"crawl_leaks DELETE: GRANT DELETE ON crawl_leaks TO ROLE",
		"crawl_deleted_sources INSERT: GRANT INSERT ON crawl_deleted_sources TO ROLE",
		"crawl_deleted_sources UPDATE: GRANT UPDATE ON crawl_deleted_sources TO ROLE",
		"crawl_deleted_sources DELETE: GRANT DELETE ON crawl_deleted_sources TO ROLE",
		"crawl_runs DELETE: GRANT DELETE ON crawl_runs TO ROLE",
		"crawl_run_facts DELETE: run `crawlkeeper migrate`",
		"crawl_logs DELETE: GRANT DELETE ON crawl_logs TO ROLE",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	kept, err := store.Rights(t.Context(), Pruned{})
	if err != nil || len(kept) != len(missing)-3 {
		t.Errorf("where all rows are kept: %+v, %v", kept, err)
	}
	for _, table := range []string{"crawl_logs", "crawl_processes", "crawl_source_options", "crawl_leaks", "crawl_deleted_sources"} {
		if n := value[int](t, pg, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("the check left %d rows in %s", n, table)
		}
	}
	if !slices.ContainsFunc(missing, func(m RightMissing) bool { return strings.Contains(m.Reason, "sequence") }) {
		t.Error("the missing right on the sequence is not named")
	}
}

func TestOpenHidesThePassword(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), "postgres://u:geheim@127.0.0.1:notaport/x", testenv.Logger(t))
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("got %v", err)
	}
	store, err := Open(t.Context(), "postgres://u:geheim@127.0.0.1:1/x?pool_max_conns=2", testenv.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Ping(t.Context()); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("got %v", err)
	}
}

func TestRightsDoNotMindAMissingDefault(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "ALTER TABLE crawl_logs ALTER id DROP DEFAULT")
	if missing, err := open(t, pg).Rights(t.Context(), Pruned{Processes: true, Runs: true, Logs: true}); err != nil || len(missing) != 0 {
		t.Errorf("missing are %v, %v", missing, err)
	}
}
