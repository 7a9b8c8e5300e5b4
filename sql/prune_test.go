package sql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

// prunable fills the tables with rows that say whether they are to go or to stay.
func prunable(t *testing.T, pg *testenv.PG) {
	t.Helper()
	pg.Exec(t, "INSERT INTO sources (code, collector) VALUES ('a', 'news'), ('theirs', 'shops'), ('nobodys', null)")
	for _, r := range []struct{ source, status, started, finished, error string }{
		{"a", "succeeded", "1 day", "1 day", "stays: young"},
		{"a", "succeeded", "9 day", "1 day", "stays: ended late"},
		{"a", "succeeded", "9 day", "8 day", "goes"},
		{"gone", "failed", "9 day", "", "goes: never ended"},
		{"nobodys", "interrupted", "9 day", "8 day", "goes: of no collector"},
		{"a", "running", "9 day", "", "stays: running"},
		{"a", "running", "9 day", "8 day", "stays: running, it says"},
		{"a", "", "9 day", "8 day", "stays: no status"},
		{"a", "succeeded", "", "8 day", "stays: no start"},
		{"theirs", "succeeded", "9 day", "8 day", "stays: theirs"},
	} {
		pg.Exec(t, `WITH r AS (INSERT INTO crawl_runs (source_code, status, started_at, finished_at, error)
				VALUES ($1, nullif($2, ''), now() - nullif($3, '')::interval, now() - nullif($4, '')::interval, $5) RETURNING id, error)
			INSERT INTO crawl_run_facts (run_id, tick_id) SELECT id::text, error FROM r`, r.source, r.status, r.started, r.finished, r.error)
	}
	for _, l := range []struct{ source, age, message string }{
		{"a", "1 day", "stays: young"}, {"a", "9 day", "goes"}, {"", "9 day", "goes: no source"}, {"a", "", "stays: no time"}, {"theirs", "9 day", "stays: theirs"},
	} {
		pg.Exec(t, "INSERT INTO crawl_logs (source_code, created_at, message) VALUES (nullif($1, ''), now() - nullif($2, '')::interval, $3)", l.source, l.age, l.message)
	}
	pg.Exec(t, `INSERT INTO crawl_processes (id, source, kind, manager, host, boot_id, command, status, queued_at, ended_at, dir, final_owed)
		VALUES (gen_random_uuid(), 'a', 'crawler', '', '', '', '[]', 'exited', now() - interval '9 day', now() - interval '9 day', 'stays: owed', true)`)
	for _, p := range []struct{ source, status, ended, dir string }{
		{"a", "exited", "1 day", "stays: young"}, {"a", "exited", "9 day", "goes"}, {"gone", "exited", "9 day", "goes: no source"},
		{"a", "running", "", "stays: running"}, {"a", "queued", "9 day", "stays: not exited, it says"}, {"theirs", "exited", "9 day", "stays: theirs"},
	} {
		pg.Exec(t, `INSERT INTO crawl_processes (id, source, kind, manager, host, boot_id, command, status, queued_at, ended_at, dir)
			VALUES (gen_random_uuid(), $1, 'crawler', '', '', '', '[]', $2, now() - interval '9 day', now() - nullif($3, '')::interval, $4)`, p.source, p.status, p.ended, p.dir)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]string{
		"old shape": "",
		"uuids": `ALTER TABLE crawl_runs ALTER id TYPE uuid USING gen_random_uuid(), ALTER id SET DEFAULT gen_random_uuid(), ALTER started_at TYPE timestamp, ALTER finished_at TYPE timestamp;
			ALTER TABLE crawl_logs ALTER id TYPE uuid USING gen_random_uuid(), ALTER id SET DEFAULT gen_random_uuid(), ALTER created_at TYPE timestamp`,
		"texts": `ALTER TABLE crawl_runs ALTER id TYPE text, ALTER id SET DEFAULT gen_random_uuid()::text; ALTER TABLE crawl_logs ALTER id TYPE text, ALTER id SET DEFAULT gen_random_uuid()::text`,
		"views": `ALTER TABLE crawl_runs RENAME TO rounds; CREATE VIEW crawl_runs AS SELECT * FROM rounds; ALTER TABLE crawl_logs RENAME TO words; CREATE VIEW crawl_logs AS SELECT * FROM words;
			ALTER VIEW crawl_runs ALTER id SET DEFAULT nextval('crawl_runs_id_seq'); ALTER VIEW crawl_logs ALTER id SET DEFAULT nextval('crawl_logs_id_seq')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := migrated(t)
			if shape != "" {
				shape = strings.ReplaceAll(shape, "ALTER id TYPE", "ALTER id DROP DEFAULT, ALTER id TYPE")
				pg.Exec(t, shape)
			}
			prunable(t, pg)
			store := open(t, pg)
			old := Pruning{Collector: "news", Before: time.Now().Add(-7 * 24 * time.Hour), Limit: 2}
			counts := func() string {
				t.Helper()
				runs, err := store.PruneRuns(t.Context(), old)
				if err != nil {
					t.Fatal(err)
				}
				logs, err := store.PruneLogs(t.Context(), old)
				if err != nil {
					t.Fatal(err)
				}
				processes, err := store.PruneProcesses(t.Context(), old)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(runs, logs, processes)
			}
			for i, want := range []string{"2 2 2", "1 0 0", "0 0 0"} {
				if got := counts(); got != want {
					t.Errorf("time %d: %s rows of runs, logs and processes went, want %s", i+1, got, want)
				}
			}
			for what, want := range map[string]int{
				"crawl_runs WHERE error": 7, "crawl_run_facts WHERE tick_id": 7, "crawl_logs WHERE message": 3, "crawl_processes WHERE dir": 5,
			} {
				stay := value[int](t, pg, "SELECT count(*) FROM "+what+" LIKE 'stays%'")
				if gone := value[int](t, pg, "SELECT count(*) FROM "+what+" LIKE 'goes%'"); stay != want || gone != 0 {
					t.Errorf("%s: %d of %d rows stay, %d are left that should be gone", what, stay, want, gone)
				}
			}
		})
	}
}

func TestPruneWaitsForNoLock(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	prunable(t, pg)
	store := open(t, pg)
	tx, err := store.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM crawl_runs WHERE error = 'goes' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	old := Pruning{Collector: "news", Before: time.Now().Add(-7 * 24 * time.Hour)}
	if n, err := store.PruneRuns(t.Context(), old); judge(err) != locked || n != 0 {
		t.Errorf("with a row in use: %d, %v", n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := store.PruneRuns(t.Context(), old); err != nil || n != 3 {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}
