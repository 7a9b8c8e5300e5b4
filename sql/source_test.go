package sql

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

//go:fix inline
func TestSourcesAsTheOldManagerSawThem(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `
		INSERT INTO sources VALUES
			('full', 'news', 'rss', true, 300, 24, '2026-11-29 10:41:00.123456+00', '2026-11-30 00:00:00+02', false, 3, '2026-12-01 00:00:00+00'),
			('for ever', 'news', '', false, -5, 0, 'infinity', '-infinity', true, 0, 'infinity'),
			('long ago', 'news', '', true, 2147483647, 0, null, null, true, 0, '-infinity'),
			('elsewhere', 'shops', 'rss', true, 300, 24, null, null, null, null, null);
		INSERT INTO sources (code, collector) VALUES ('nulls', 'news');
		INSERT INTO crawl_source_options VALUES
			('full', '*/5 * * * *', 'Europe/Berlin', 1.5, '{"url": "http://x/"}', 'why', 'who', 'stopped');
		UPDATE crawl_source_options SET paused_until = '2026-12-01 00:00:00+00'`)
	got, err := open(t, pg).Sources(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	want := []Source{
		{Code: "for ever", IntervalSeconds: new(-5), BackfillHours: new(0), PausedUntil: FarFuture,
			History: History{Target: "9999-12-31T23:59:59.999999+00:00", Position: "0001-01-01T00:00:00+00:00", Done: true}},
		{Code: "full", Adapter: "rss", Enabled: true, IntervalSeconds: new(300), BackfillHours: new(24), ConsecutiveFailures: 3,
			History:     History{Target: "2026-11-29T10:41:00.123456+00:00", Position: "2026-11-29T22:00:00+00:00"},
			PausedUntil: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Schedule: "*/5 * * * *", Timezone: "Europe/Berlin",
			Jitter: 1500 * time.Millisecond, Payload: json.RawMessage(`{"url": "http://x/"}`), PauseReason: "why", PausedBy: "who",
			Wanted: WantedStopped, OwnPause: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		{Code: "long ago", Enabled: true, IntervalSeconds: new(2147483647), BackfillHours: new(0), History: History{Done: true}},
		{Code: "nulls"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSourcesOfOtherTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, target, position string
		want                   History
	}{
		{"date", "date '2026-11-29'", "date 'infinity'", History{Target: "2026-11-29", Position: "9999-12-31"}},
		{"timestamp", "timestamp '2026-11-29 10:41:00.5'", "timestamp '-infinity'",
			History{Target: "2026-11-29T10:41:00.500000", Position: "0001-01-01T00:00:00"}},
		{"timestamptz", "timestamptz '2026-11-29 10:41:00+02'", "timestamptz '0044-03-15 00:00+00 BC'",
			History{Target: "2026-11-29T08:41:00+00:00", Position: "0001-01-01T00:00:00+00:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pg := migrated(t)
			pg.Exec(t, `
				DROP TABLE sources;
				CREATE TABLE sources AS SELECT 7 AS id, 'a'::char(8) AS code, 'news'::text AS collector, null::text AS adapter, true AS enabled,
					300::bigint AS interval_seconds, 24::smallint AS backfill_hours, `+c.target+` AS history_target, `+c.position+` AS history_position,
					null::boolean AS history_done, 0::bigint AS consecutive_failures, timestamp '2026-12-01 00:00:00' AS paused_until`)
			// The database's own settings must not leak into what we read.
			pg.Exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kolkata''', current_database()); "+
				"EXECUTE format('ALTER DATABASE %I SET datestyle = ''German''', current_database()); END $$")
			store := open(t, pg)
			got, err := store.Sources(t.Context(), "news")
			if err != nil {
				t.Fatal(err)
			}
			want := []Source{{Code: "a", Enabled: true, IntervalSeconds: new(300), BackfillHours: new(24), History: c.want,
				PausedUntil: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			histories, err := store.History(t.Context(), []string{"a", "gone"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]History{"a": c.want}, histories); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDuplicateCodes(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `ALTER TABLE sources DROP CONSTRAINT sources_pkey, ALTER COLUMN code DROP NOT NULL;
		INSERT INTO sources (code, collector, adapter) VALUES ('a', 'news', 'z'), ('a', 'news', 'b'), (null, 'news', 'x'), ('c', 'news', null);`)
	store := open(t, pg)
	for range 2 {
		got, err := store.Sources(t.Context(), "news")
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0].Adapter != "b" || got[1].Code != "c" {
			t.Errorf("got %+v, want the first of a, and c", got)
		}
		pg.Exec(t, "UPDATE sources SET consecutive_failures = 1") // moves the rows
	}
	codes, err := store.DuplicateCodes(t.Context(), "news")
	if err != nil || len(codes) != 1 || codes[0] != "a" {
		t.Errorf("duplicate codes %v, %v", codes, err)
	}
}
