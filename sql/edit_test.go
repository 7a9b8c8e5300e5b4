package sql

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, adapter, enabled, interval_seconds, history_position) VALUES
		('old', 'news', 'rss', false, 60, '2026-01-01'), ('theirs', 'shops', 'rss', true, 60, null)`)
	store := open(t, pg)
	edits := []SourceEdit{
		{Code: "new", Adapter: Some("rss"), Payload: Some(json.RawMessage(`{"url": "http://x/"}`)), Jitter: Some(1500 * time.Millisecond)},
		{Code: "bare"},
		{Code: "old", Enabled: Some(true), Adapter: Null[string](), HistoryTarget: Some("2025-01-01"), PausedUntil: Some(FarFuture),
			PauseReason: Some("why"), Wanted: Some(WantedStopped), BackfillHours: Some(7), HistoryDone: Some(false),
			ConsecutiveFailures: Some(2), Schedule: Some("* * * * *"), Timezone: Some("UTC"), PausedBy: Some("me"), IntervalSeconds: Some(5)},
	}
	for i, want := range []Applied{{Inserted: 2, Updated: 1}, {Unchanged: 2}} {
		got, err := store.Apply(t.Context(), "news", edits)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("time %d: %+v, want %+v", i+1, got, want)
		}
	}
	got, err := store.Sources(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	want := []Source{
		{Code: "bare", Enabled: true, IntervalSeconds: new(300), BackfillHours: new(24)},
		{Code: "new", Adapter: "rss", Enabled: true, IntervalSeconds: new(300), BackfillHours: new(24),
			Payload: json.RawMessage(`{"url": "http://x/"}`), Jitter: 1500 * time.Millisecond},
		{Code: "old", Enabled: true, IntervalSeconds: new(5), BackfillHours: new(7), ConsecutiveFailures: 2, PausedUntil: FarFuture, OwnPause: FarFuture,
			History:  History{Target: "2025-01-01T00:00:00+00:00", Position: "2026-01-01T00:00:00+00:00"},
			Schedule: "* * * * *", Timezone: "UTC", PauseReason: "why", PausedBy: "me", Wanted: WantedStopped},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestApplyKeepsTheDatabasesDefaults(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `ALTER TABLE sources ALTER interval_seconds SET DEFAULT 77, ALTER enabled SET DEFAULT false, ADD owner text NOT NULL DEFAULT 'nobody'`)
	store := open(t, pg)
	if _, err := store.Apply(t.Context(), "news", []SourceEdit{{Code: "a"}}); err != nil {
		t.Fatal(err)
	}
	if got := rowsText(t, pg, "SELECT enabled, interval_seconds, backfill_hours, owner FROM sources"); got != "(f,77,24,nobody)" {
		t.Errorf("got %s", got)
	}
}

func TestRefusedEditsChangeNothing(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "INSERT INTO sources (code, collector, interval_seconds) VALUES ('a', 'news', 1), ('b', 'shops', 1)")
	store := open(t, pg)
	good := SourceEdit{Code: "a", IntervalSeconds: Some(2)}
	var unknown *UnknownSourcesError
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"another collector's": {func() error { _, err := store.Apply(t.Context(), "news", []SourceEdit{good, {Code: "b"}}); return err },
			`change source "b": it belongs to the collector "shops"`},
		"named twice": {func() error { _, err := store.Apply(t.Context(), "news", []SourceEdit{good, good}); return err },
			`change source "a": it is named twice`},
		"unknown":        {func() error { return store.Edit(t.Context(), "news", []SourceEdit{good, {Code: "x"}, {Code: "b"}}) }, "unknown source: x, b"},
		"unknown delete": {func() error { return store.Delete(t.Context(), "news", []string{"a", "b"}) }, "unknown source: b"},
		"bad time": {func() error {
			_, err := store.Apply(t.Context(), "news", []SourceEdit{{Code: "z"}, {Code: "a", HistoryTarget: Some("soon")}})
			return err
		},
			`change source "a": ERROR: invalid input syntax for type timestamp with time zone: "soon" (SQLSTATE 22007)`},
		"bad payload": {func() error {
			_, err := store.Apply(t.Context(), "news", []SourceEdit{{Code: "z", Payload: Some(json.RawMessage(`[1]`))}})
			return err
		}, `change source "z": ERROR: new row for relation "crawl_source_options" violates check constraint "crawl_source_options_payload_check" (SQLSTATE 23514)`},
	} {
		err := c.do()
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	if err := store.Edit(t.Context(), "news", []SourceEdit{{Code: "x"}}); !errors.As(err, &unknown) || unknown.Codes[0] != "x" {
		t.Errorf("got %v", err)
	}
	if got := rowsText(t, pg, "SELECT code, interval_seconds FROM sources ORDER BY code"); got != "(a,1)\n(b,1)" {
		t.Errorf("sources changed: %s", got)
	}
}

func TestEditAndDelete(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, history_position) VALUES ('a', 'news', now()), ('b', 'news', now());
		INSERT INTO crawl_source_options (code, schedule) VALUES ('a', '* * * * *'), ('b', '* * * * *');
		ALTER TABLE sources ALTER history_position TYPE date`)
	store := open(t, pg)
	err := store.Edit(t.Context(), "news", []SourceEdit{{Code: "a", HistoryTarget: Some("2024-01-01T00:00:00+00:00"), HistoryPosition: Null[string](),
		Schedule: Null[string]()}, {Code: "b", HistoryPosition: Some("2024-05-06")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := rowsText(t, pg, "SELECT s.code, history_target IS NOT NULL, history_position, schedule FROM sources s JOIN crawl_source_options o USING (code) ORDER BY 1"); got != `(a,t,,)`+"\n"+`(b,f,2024-05-06,"* * * * *")` {
		t.Errorf("got %s", got)
	}
	if err := store.Delete(t.Context(), "news", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got := rowsText(t, pg, "SELECT (SELECT string_agg(code, '') FROM sources), (SELECT string_agg(code, '') FROM crawl_source_options)"); got != "(b,b)" {
		t.Errorf("left %s", got)
	}
}

func TestApplyDeletesWhatIsUnwanted(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO sources (code, collector) VALUES ('a', 'news'), ('b', 'news'), ('theirs', 'shops');
		INSERT INTO crawl_source_options (code, timezone) VALUES ('a', 'UTC'), ('theirs', 'UTC')`)
	store := open(t, pg)
	codes := func() string { return rowsText(t, pg, "SELECT code FROM sources ORDER BY code") }
	before := codes()
	if _, err := store.Apply(t.Context(), "news", []SourceEdit{{Code: "new"}, {Code: "theirs"}}, "a"); err == nil || codes() != before {
		t.Errorf("the error is %v, and there are %s", err, codes())
	}
	got, err := store.Apply(t.Context(), "news", []SourceEdit{{Code: "new"}}, "a", "theirs", "unknown")
	if want := (Applied{Inserted: 1, Deleted: 1}); err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	if got := rowsText(t, pg, "SELECT s.code, o.timezone FROM sources s FULL JOIN crawl_source_options o ON s.code = o.code ORDER BY s.code"); got != "(b,)\n(new,)\n(theirs,UTC)" {
		t.Errorf("left are %s", got)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	before := time.Now()
	got, err := open(t, migrated(t)).Clock(t.Context())
	if err != nil || got.Before(before.Add(-time.Second)) || got.After(time.Now().Add(time.Second)) {
		t.Errorf("it shows %v (%v), and here it is %v", got, err, before)
	}
}
