package sql

import (
	_ "embed"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"crawlkeeper/internal/testenv"
)

//go:embed oldshape.sql
var oldShape string

// otherShape is what a user's database may look like: own columns, no defaults, other types.
const otherShape = `
	CREATE TABLE sources (id integer NOT NULL, code text, collector text NOT NULL DEFAULT 'news', adapter text, enabled boolean,
		interval_seconds bigint, backfill_hours smallint, history_target timestamp, history_position date, history_done boolean,
		consecutive_failures integer, paused_until timestamptz, owner text NOT NULL DEFAULT 'nobody', tags jsonb);
	CREATE TABLE crawl_runs (id uuid PRIMARY KEY, source_code text NOT NULL, status text, trigger text, started_at timestamp,
		finished_at timestamp, error text, pages integer);
	CREATE TABLE crawl_logs (id integer PRIMARY KEY, source_code text, run_id uuid, level text, message text, created_at timestamp);
	CREATE VIEW recent AS SELECT * FROM crawl_runs;
	INSERT INTO sources (id, code, history_position) VALUES (1, 'a', '2026-11-29');
	INSERT INTO crawl_runs (id, source_code) VALUES (gen_random_uuid(), 'a');`

// viewShape has the tables under other names.
const viewShape = `
	CREATE SCHEMA crawl;
	CREATE TABLE crawl.feeds (slug text PRIMARY KEY, kind text, on_air boolean);
	CREATE VIEW sources AS SELECT slug AS code, 'news'::text AS collector, kind AS adapter, on_air AS enabled FROM crawl.feeds;
	CREATE TABLE crawl.rounds (id bigserial PRIMARY KEY, source_code text);
	CREATE VIEW crawl_runs AS SELECT * FROM crawl.rounds;
	CREATE VIEW crawl_logs AS SELECT 1 AS id;`

// catalog describes what there is, with the files that hold the data: a rewritten table has another one.
const catalog = `
	SELECT c.oid, c.relname, c.relkind, c.relfilenode, c.relnatts, a.attname, a.atttypid::regtype, a.atttypmod, a.attnotnull, a.attidentity,
		pg_get_expr(d.adbin, d.adrelid), a.attisdropped, c.relacl, c.relhasrules, c.relhastriggers, c.xmin
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
	WHERE c.relnamespace::regnamespace::text IN ('public', 'crawl') %s
	ORDER BY c.oid, a.attnum`

func dump(t *testing.T, pg *testenv.PG, where string) string {
	t.Helper()
	return rowsText(t, pg, replaceOne(catalog, where)) + "\n" +
		rowsText(t, pg, "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint ORDER BY oid")
}

func migrate(t *testing.T, pg *testenv.PG) []string {
	t.Helper()
	applied, err := Migrate(t.Context(), pg.URL(), testenv.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func TestMigrateLeavesWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"nothing": "", "old shape": oldShape, "other shape": otherShape, "views": viewShape,
		"own goose": oldShape + "CREATE TABLE goose_db_version (id int, version_id int); INSERT INTO goose_db_version VALUES (1, 77);"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := testenv.Postgres(t)
			pg.Exec(t, before)
			theirs := value[[]uint32](t, pg, "SELECT coalesce(array_agg(oid), '{}') FROM pg_class WHERE relnamespace::regnamespace::text IN ('public', 'crawl')")
			were := rowsText(t, pg, replaceOne(catalog, ""))

			if all, _ := migrations.ReadDir("migrations"); len(migrate(t, pg)) != len(all) {
				t.Errorf("not all %d migrations were applied", len(all))
			}
			are := value[string](t, pg, "SELECT coalesce(string_agg(q::text, E'\\n'), '') FROM ("+replaceOne(catalog, "AND c.oid = ANY($1)")+") q", theirs)
			if diff := cmp.Diff(were, are); diff != "" {
				t.Errorf("what was there has changed:\n%s", diff)
			}

			first := dump(t, pg, "")
			if applied := migrate(t, pg); applied != nil {
				t.Errorf("the second run applied %v", applied)
			}
			if diff := cmp.Diff(first, dump(t, pg, "")); diff != "" {
				t.Errorf("the second run changed something:\n%s", diff)
			}
			if n := value[int](t, pg, "SELECT count(*) FROM pg_constraint WHERE contype = 'f'"); n != 0 {
				t.Errorf("%d foreign keys", n)
			}
		})
	}
}

func TestMigrateMakesTheOldShape(t *testing.T) {
	t.Parallel()
	const shape = `SELECT c.relname, a.attname, a.atttypid::regtype, a.atttypmod, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
		LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		WHERE c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE '%goose%' AND c.relname NOT SIMILAR TO '%crawl_(source_options|processes|run_facts|feed|leaks|deleted)%'
		ORDER BY c.relname, a.attnum`
	const indexes = `SELECT indexdef FROM pg_indexes WHERE tablename IN ('sources', 'crawl_runs', 'crawl_logs') ORDER BY 1`
	shapes := make(map[string]string)
	for name, statements := range map[string]string{"ours": "", "for sqlc": oldShape, "the old manager's": testenv.OldSchema} {
		pg := testenv.Postgres(t)
		pg.Exec(t, statements)
		if statements == "" {
			migrate(t, pg)
		}
		shapes[name] = rowsText(t, pg, shape) + "\n" + rowsText(t, pg, indexes)
	}
	for _, name := range []string{"ours", "for sqlc"} {
		if diff := cmp.Diff(shapes["the old manager's"], shapes[name]); diff != "" {
			t.Errorf("%s differs from the old manager's:\n%s", name, diff)
		}
	}
}

func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 4 {
		wg.Go(func() {
			applied, err := Migrate(t.Context(), pg.URL(), testenv.Logger(t))
			if err != nil {
				t.Errorf("migrate: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += len(applied)
		})
	}
	wg.Wait()
	if all, _ := migrations.ReadDir("migrations"); total != len(all) {
		t.Errorf("%d migrations were applied by all together, want %d", total, len(all))
	}
}

// A transaction that holds the strongest lock on the shared tables does not matter: the migration takes none there.
func TestMigrateBesideALongTransaction(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	pg.Exec(t, oldShape)
	holder := pg.Conn(t)
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE sources, crawl_runs, crawl_logs IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	migrate(t, pg)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("took %v: it waited for a lock", took)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A lock on a table of ours that is held for long ends the migration with an error, so that nobody queues behind it.
func TestMigrateGivesUpOnALock(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `DELETE FROM crawlkeeper_goose WHERE version_id > 1;
		DO $$ DECLARE name text; BEGIN
			FOR name IN SELECT tablename FROM pg_tables WHERE tablename LIKE 'crawl\_%' AND tablename NOT IN ('crawl_runs', 'crawl_logs') LOOP
				EXECUTE 'DROP TABLE ' || name;
			END LOOP;
		END $$`)
	tx, err := pg.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE crawlkeeper_goose IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	_, err = Migrate(t.Context(), pg.URL(), testenv.Logger(t))
	if pgErr, ok := refusal(err); !ok || pgErr.Code != codeLockTimeout {
		t.Errorf("got %v, want a lock timeout", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, _ := migrations.ReadDir("migrations"); len(migrate(t, pg)) != len(all)-1 {
		t.Error("the rest was not applied afterwards")
	}
}
