package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"crawlkeeper/internal/testenv"
)

// oldData is what a hand-written manager and its user have left: columns of the user's own, and runs that are open.
const oldData = `
ALTER TABLE sources ADD COLUMN title text NOT NULL DEFAULT 'untitled', ADD COLUMN "Owner" jsonb;
ALTER TABLE crawl_runs ADD COLUMN items integer;
CREATE INDEX my_own ON crawl_runs (status, started_at);
INSERT INTO sources (code, collector, adapter, enabled, interval_seconds, backfill_hours, history_done, consecutive_failures, title, "Owner") VALUES
  ('plain', 'news', 'builtin', true, 300, 24, false, 4, 'Plain', '{"name": "Ö"}'),
  ('stubborn', 'news', 'stubborn', true, 300, NULL, NULL, 0, 'Ignores SIGTERM', NULL),
  ('crashing', 'news', 'crashing', true, 300, 24, false, 0, 'Ends at once', NULL),
  ('missing', 'news', 'missing', true, 300, 24, false, 0, 'Has no program', NULL),
  ('shop', 'shop', 'builtin', true, 300, 24, false, 0, 'Of another collector', NULL);
INSERT INTO sources (code, collector, adapter, enabled, interval_seconds, backfill_hours, history_target, history_position, history_done)
  VALUES ('history', 'news', NULL, true, 300, 24, '2026-01-01 00:00+00', '2026-02-03 04:05:06.000007+00', false);
INSERT INTO crawl_runs (source_code, status, trigger, started_at, items) VALUES
  ('plain', 'running', 'schedule', now() - interval '1 hour', 1),
  ('plain', 'running', 'backfill', now() - interval '1 hour', 2),
  ('plain', 'running', NULL, now() - interval '1 hour', 3),
  ('shop', 'running', 'schedule', now() - interval '1 hour', 4);
INSERT INTO crawl_runs (source_code, status, trigger, started_at, finished_at, error)
  VALUES ('plain', 'interrupted', 'schedule', now() - interval '1 day', now(), 'child exited before this run finished');
INSERT INTO crawl_logs (source_code, level, message) VALUES ('plain', 'INFO', 'child started pid=1');`

// shape is everything that a migration could touch: each table's file, columns, defaults, indexes and constraints, and each row
// with the transaction that wrote it.
const shape = `
SELECT c.relname || ' is ' || c.relfilenode FROM pg_class c WHERE c.relname = any($1)
UNION ALL SELECT attrelid::regclass || ' has ' || attnum || ' ' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull || ' ' ||
  coalesce(pg_get_expr(adbin, adrelid), '') FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  WHERE attrelid = any($1::text[]::regclass[])
UNION ALL SELECT indexdef FROM pg_indexes WHERE tablename = any($1)
UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = any($1::text[]::regclass[])
UNION ALL SELECT tgrelid::regclass || ' ' || tgname FROM pg_trigger WHERE tgrelid = any($1::text[]::regclass[])
UNION ALL SELECT xmin || ' ' || s FROM sources s
UNION ALL SELECT xmin || ' ' || r FROM crawl_runs r
UNION ALL SELECT xmin || ' ' || l FROM crawl_logs l
ORDER BY 1`

func (w *world) shape() []string {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), shape, []string{"sources", "crawl_runs", "crawl_logs"})
	if err != nil {
		w.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	return lines
}

// oldWorld is the database of an old manager, and what it left in Redis when it was killed a moment ago.
func oldWorld(t *testing.T) *world {
	t.Helper()
	w := worldOf(t, testenv.PostgresFrom(t, "old", func(ctx context.Context, url string) error {
		db, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer db.Close(ctx)
		_, err = db.Exec(ctx, testenv.OldSchema+oldData)
		return err
	}))
	left := `{"state": "running", "pid": 1, "started_at": "2026-01-01T00:00:00+00:00", "next_run_at": "2026-01-01T00:00:00+00:00"}`
	if err := w.rdb.HSet(t.Context(), "crawler:status", "plain", left, "deleted", left).Err(); err != nil {
		t.Fatal(err)
	}
	w.rdb.Expire(t.Context(), "crawler:status", 10*time.Second)
	const once = "backoff: {min: 1h, max: 1h}"
	standin := testenv.StandIn(t)
	w.configure(
		adapter(t, "*", "tick: bare", standin, "-code", "{code}"),
		adapter(t, "stubborn", "tick: bare, stop_timeout: 1s", standin, "-code", "{code}", "-ignore-term"),
		adapter(t, "crashing", once, standin, "-after", "0s", "-exit", "3"),
		adapter(t, "missing", once, "/no/such/crawler"),
	)
	return w
}

func TestOldDatabaseIsTakenOver(t *testing.T) {
	t.Parallel()
	w := oldWorld(t)
	before := w.shape()
	migrate := func() string { return w.call(w.environ(), crawlkeeper(t), "migrate", "--config", w.conf) }
	if got := migrate(); strings.Count(got, "applied ") < 2 {
		t.Errorf("the first migration printed %q", got)
	}
	if got, want := migrate(), "the database is up to date\n"; got != want {
		t.Errorf("the second migration printed %q, want %q", got, want)
	}
	if diff := cmp.Diff(before, w.shape()); diff != "" {
		t.Errorf("a migration touched what is shared (-before +after):\n%s", diff)
	}

	m := w.run("new")
	m.seesStates()
	m.seesTicks()
	m.seesRuns()
	m.restartsInTheOldWay()
	m.stop()
	if !w.holds(`select count(*) = 6 and count(*) filter (where title <> 'untitled') = 5 and bool_or("Owner" = '{"name": "Ö"}') from sources`) {
		t.Error("columns of the user's own have changed")
	}
	if !w.holds(`select count(*) > 1 and count(id) = count(*) and count(created_at) = count(*) from crawl_logs where level in ('INFO', 'WARNING', 'ERROR')`) {
		t.Error("the log is not written as the old manager did")
	}
}

// oldField begins a status field, as the old manager's json.dumps wrote it; ours has more behind it.
const (
	oldField  = `^\{"state": "%s", "pid": (%s), "started_at": %s, "next_run_at": %s, `
	isoformat = `"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?\+00:00)"`
)

// field waits until a source's field begins as the old one did, with this state, pid and start (patterns), and returns pid,
// start and next run as they are written.
func (w *world) field(code, state, pid, started string) []string {
	w.t.Helper()
	old := regexp.MustCompile(fmt.Sprintf(oldField, state, pid, started, isoformat))
	var found []string
	w.eventually(code+" is "+state, func() bool {
		found = old.FindStringSubmatch(w.rdb.HGet(w.t.Context(), "crawler:status", code).Val())
		return found != nil
	})
	return found[1:]
}

// ticks wait in the list of a source, as its crawler takes none.
func (w *world) ticks(code string) []string {
	return w.rdb.LRange(w.t.Context(), "crawler:"+code+":start_urls", 0, -1).Val()
}

// seesStates is what a user interface of the old system reads.
func (m *manager) seesStates() {
	m.t.Helper()
	w := m.w
	for _, code := range []string{"plain", "stubborn", "history"} {
		w.eventually(code+" has its first tick", func() bool { return len(w.ticks(code)) == 1 })
		var started, next time.Time
		w.eventually(code+" is due again later", func() bool {
			f := w.field(code, "running", `\d+`, isoformat)
			if !slices.ContainsFunc(testenv.Bearing(m.t, m.mark), func(stat string) bool { return strings.HasPrefix(stat, f[0]+" (") }) {
				m.t.Errorf("%s: no crawler has the pid %s", code, f[0])
			}
			started, next = moment(m.t, f[1]), moment(m.t, f[2])
			return next.After(started.Add(time.Second))
		})
		if in := next.Sub(started).Round(time.Second); in != 300*time.Second {
			m.t.Errorf("%s is due again %v after its start", code, in)
		}
		if ran := time.Since(started); ran < 0 || ran > patience {
			m.t.Errorf("%s was started %v ago", code, ran)
		}
	}
	w.field("crashing", "stopped", "null", isoformat)
	w.field("missing", "stopped", "null", "(null)")
	w.eventually("the hash has the sources and no others", func() bool {
		codes := together(w.rdb.HKeys(m.t.Context(), "crawler:status").Val())
		return slices.Equal(codes, []string{"crashing", "history", "missing", "plain", "stubborn"})
	})
	if ttl := w.rdb.TTL(m.t.Context(), "crawler:status").Val(); ttl <= 0 || ttl > 10*time.Second {
		m.t.Errorf("the hash lives for %v", ttl)
	}
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// seesTicks is what a crawler of the old system gets, byte for byte.
func (m *manager) seesTicks() {
	m.t.Helper()
	for code, want := range map[string]string{
		"plain":    `{"trigger": "startup", "backfill_hours": 24}`,
		"stubborn": `{"trigger": "startup", "backfill_hours": null}`,
		"history": `{"trigger": "startup", "backfill_hours": 24, "history": ` +
			`{"target": "2026-01-01T00:00:00+00:00", "position": "2026-02-03T04:05:06.000007+00:00"}}`,
		"shop": "",
	} {
		if got := strings.Join(m.w.ticks(code), " and "); got != want {
			m.t.Errorf("%s got %s, want %s", code, got, want)
		}
	}
}

// seesRuns checks that of the old manager's open runs only the scheduled one of ours is marked, and closed ones stay.
func (m *manager) seesRuns() {
	m.t.Helper()
	m.w.until("what the old manager left is marked", `select status = 'interrupted' and finished_at > now() - interval '1 hour'
		and error like 'crawler ended before this run was finished%' from crawl_runs where items = 1`)
	if !m.w.holds(`select count(*) = 3 from crawl_runs where items in (2, 3, 4) and status = 'running' and finished_at is null and error is null`) {
		m.t.Error("a backfill, a run without trigger, or one of another collector was touched")
	}
	if !m.w.holds(`select count(*) = 1 from crawl_runs where error = 'child exited before this run finished'`) {
		m.t.Error("a run that was closed was touched")
	}
}

// restartsInTheOldWay publishes what the old user interface does, for a crawler that ignores SIGTERM for a while.
func (m *manager) restartsInTheOldWay() {
	m.t.Helper()
	w := m.w
	w.pg.Exec(m.t, `update sources set consecutive_failures = 4, paused_until = now() + interval '1 hour' where code = 'stubborn'`)
	before := w.field("stubborn", "running", `\d+`, isoformat)
	w.publish(`{"action":"restart","source":"stubborn"}`)
	w.field("stubborn", "restarting", before[0], `"(`+regexp.QuoteMeta(before[1])+`)"`)
	after := w.field("stubborn", "running", `\d+`, isoformat)
	if after[0] == before[0] || !moment(m.t, after[1]).After(moment(m.t, before[1])) {
		m.t.Errorf("after the restart its field says %v, before %v", after, before)
	}
	w.eventually("the tick says restart", func() bool {
		return slices.Equal(w.ticks("stubborn"), []string{`{"trigger": "restart", "backfill_hours": null}`})
	})
	w.until("pause and failures are cleared", `select consecutive_failures = 0 and paused_until is null from sources where code = 'stubborn'`)
}
