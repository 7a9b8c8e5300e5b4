package sql

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql/internal/db"
)

// poller remembers the version between polls, as a manager does.
type poller struct {
	t       *testing.T
	store   *Store
	version Version
}

func (p *poller) poll() ([]Source, bool) {
	p.t.Helper()
	sources, version, changed, err := p.store.Poll(p.t.Context(), "news", p.version)
	if err != nil {
		p.t.Fatalf("poll: %v", err)
	}
	p.version = version
	return sources, changed
}

func (p *poller) want(changed bool, why string) {
	p.t.Helper()
	if _, got := p.poll(); got != changed {
		p.t.Errorf("%s: changed is %v, want %v", why, got, changed)
	}
}

func TestPollSeesWhatTheManagerActsOn(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "INSERT INTO sources (code, collector, enabled) VALUES ('a', 'news', true), ('b', 'shops', true)")
	p := &poller{t: t, store: open(t, pg)}
	p.want(true, "the first poll")
	for _, c := range []struct {
		statement string
		changed   bool
	}{
		{"UPDATE sources SET adapter = 'rss'", true},
		{"UPDATE sources SET adapter = 'rss'", false},
		{"UPDATE sources SET enabled = false", true},
		{"UPDATE sources SET enabled = null", true},
		{"UPDATE sources SET interval_seconds = 5", true},
		{"UPDATE sources SET backfill_hours = 5", true},
		{"UPDATE sources SET history_target = '2026-01-01'", true},
		{"UPDATE sources SET history_done = true", true},
		{"UPDATE sources SET paused_until = 'infinity'", true},
		{"UPDATE sources SET history_position = now(), consecutive_failures = 7", false},
		{"UPDATE sources SET adapter = 'x' WHERE code = 'b'", false},
		{"INSERT INTO crawl_runs (source_code) VALUES ('a')", false},
		{"INSERT INTO crawl_source_options (code) VALUES ('a')", false},
		{"UPDATE crawl_source_options SET schedule = '* * * * *'", true},
		{"UPDATE crawl_source_options SET timezone = 'UTC'", true},
		{"UPDATE crawl_source_options SET jitter_seconds = 1", true},
		{"UPDATE crawl_source_options SET payload = '{\"a\": 1}'", true},
		{"UPDATE crawl_source_options SET pause_reason = 'x'", true},
		{"UPDATE crawl_source_options SET paused_by = 'x'", true},
		{"UPDATE crawl_source_options SET wanted = 'stopped'", true},
		{"INSERT INTO sources (code, collector) VALUES ('c', 'news')", true},
		{"UPDATE sources SET code = 'd' WHERE code = 'c'", true},
		{"UPDATE sources SET collector = 'shops' WHERE code = 'd'", true},
		{"DELETE FROM sources WHERE code = 'a'", true},
		{"TRUNCATE crawl_source_options", false},
		{"INSERT INTO sources (code, collector) VALUES ('e', 'news')", true},
		{"TRUNCATE sources", true},
	} {
		pg.Exec(t, c.statement)
		p.want(c.changed, c.statement)
		p.want(false, "after "+c.statement)
	}
	if _, _, changed, err := p.store.Poll(t.Context(), "shops", p.version); err != nil || !changed {
		t.Errorf("another collector: changed is %v, %v", changed, err)
	}
}

// Transactions that are open while polls go on: each change is seen by the first poll after its commit, whatever order they end in.
func TestPollBesideOpenTransactions(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "INSERT INTO sources (code, collector, interval_seconds) SELECT 'c' || n, 'news', 0 FROM generate_series(0, 3) n")
	p := &poller{t: t, store: open(t, pg)}
	p.want(true, "the first poll")
	var open []pgx.Tx
	for i := range 4 {
		tx, err := pg.Conn(t).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// In a subtransaction, whose number a snapshot does not show.
		if _, err := tx.Exec(t.Context(), "SAVEPOINT s"); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "UPDATE sources SET interval_seconds = 9 WHERE code = 'c' || $1::int", i); err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
		p.want(false, "an update that is not committed")
	}
	for _, i := range []int{2, 0, 3} {
		if err := open[i].Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		sources, changed := p.poll()
		if !changed || *sources[i].IntervalSeconds != 9 {
			t.Errorf("commit of %d: changed is %v", i, changed)
		}
		p.want(false, "after the commit")
	}
	if err := open[1].Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.want(false, "a rollback")
}

func TestPollCostsOneStatementAtRest(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t) // others would commit in a shared server
	migrate(t, pg)
	pg.Exec(t, "INSERT INTO sources (code, collector) SELECT 'c' || n, 'news' FROM generate_series(1, 1000) n")
	store, count := openCounted(t, pg)
	p := &poller{t: t, store: store}
	p.want(true, "the first poll")
	p.want(false, "at rest") // the first poll's own snapshot may have been older than the last insert
	before, sent := p.version, count.queries.Load()
	for range 10 {
		p.want(false, "at rest")
	}
	if n := count.queries.Load() - sent; n != 10 {
		t.Errorf("10 polls were %d statements", n)
	}
	if p.version != before {
		t.Error("the digest was taken anew at rest")
	}
}

// After a fail-over the same snapshot may mean other rows: the server's start tells.
func TestPollOnAnotherServer(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	migrate(t, pg)
	pg.Exec(t, "INSERT INTO sources (code, collector) VALUES ('a', 'news')")
	p := &poller{t: t, store: open(t, pg)}
	p.want(true, "the first poll")
	p.want(false, "at rest")

	// As if another server had had this very snapshot with other rows.
	p.version.server, p.version.digest = "2001-01-01 00:00:00+00", "1:42"
	p.want(true, "another server")

	pg.Restart(t)
	before := p.version
	testenv.Eventually(t, time.Minute, "a poll after the restart", func() bool {
		_, version, changed, err := p.store.Poll(t.Context(), "news", p.version)
		if changed {
			t.Error("a restart changed the sources")
		}
		p.version = version
		return err == nil
	})
	if p.version.server == before.server || p.version.digest != before.digest {
		t.Errorf("after a restart %+v, before %+v", p.version, before)
	}
}

func TestPollDoesNotTrustEverySnapshot(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `ALTER TABLE sources RENAME TO feeds;
		CREATE VIEW sources AS SELECT * FROM feeds WHERE interval_seconds IS NULL OR pg_sleep(0) IS NOT NULL;
		INSERT INTO feeds (code, collector) VALUES ('a', 'news');`)
	p := &poller{t: t, store: open(t, pg)}
	p.want(true, "the first poll")
	if p.version.snapshot != "" {
		t.Error("the snapshot of a view was kept")
	}
	p.want(false, "at rest")
	pg.Exec(t, "UPDATE feeds SET adapter = 'x'")
	p.want(true, "a change below the view")

	pg.Exec(t, "DROP VIEW sources; ALTER TABLE feeds RENAME TO sources")
	p.want(false, "a table again")
	if p.version.snapshot == "" {
		t.Error("the snapshot of a table was not kept")
	}
	// An old digest is taken anew, whatever the snapshot says.
	p.version.digest, p.version.digestAt = "1:42", time.Now().Add(-digestAge)
	p.want(true, "an old digest")
}

func TestPollWithPostgresAway(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	migrate(t, pg)
	p := &poller{t: t, store: open(t, pg)}
	p.want(true, "the first poll")
	pg.Stop(t)
	if _, version, changed, err := p.store.Poll(t.Context(), "news", p.version); err == nil || changed || version != p.version {
		t.Errorf("away: changed %v, error %v", changed, err)
	}
	pg.Start(t)
	testenv.Eventually(t, time.Minute, "a poll after the outage", func() bool {
		_, _, changed, err := p.store.Poll(t.Context(), "news", p.version)
		return err == nil && !changed
	})
}

// beside does something when a statement that contains a text is about to be sent.
type beside struct {
	text string
	do   func()
}

func (b *beside) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if b.do != nil && strings.Contains(q.SQL, b.text) {
		do := b.do
		b.do = nil
		do()
	}
	return ctx
}
func (*beside) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A source is stopped while a poll is on its way, and started again right after it.
func TestAPollSeesOneMoment(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "INSERT INTO sources (code, collector) VALUES ('a', 'news')")
	pg.Exec(t, "INSERT INTO crawl_source_options (code, wanted) VALUES ('a', 'up')")
	config, err := parse(pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Tracer = &beside{"-- name: Sources ", func() { pg.Exec(t, "UPDATE crawl_source_options SET wanted = 'stopped'") }}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	p := &poller{t: t, store: &Store{pool: pool, q: db.New(pool), log: testenv.Logger(t)}}
	t.Cleanup(p.store.Close)
	seen, _ := p.poll()
	pg.Exec(t, "UPDATE crawl_source_options SET wanted = 'up'")
	if sources, changed := p.poll(); changed {
		seen = sources
	}
	if len(seen) != 1 || seen[0].Wanted != "up" {
		t.Errorf("it is up, and is seen as %+v", seen)
	}
}
