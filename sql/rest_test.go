package sql

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStreaks(t *testing.T) {
	t.Parallel()
	verdicts := Verdicts{Succeeded: []string{"succeeded", "ok"}, Failed: []string{"failed"}, Crashes: []string{"gone (crashed:", "gone (oom:"}}
	for name, shape := range map[string]string{
		"old shape": "",
		"uuid, no zone": "ALTER TABLE crawl_runs ALTER id DROP DEFAULT, ALTER id TYPE uuid USING gen_random_uuid(), ALTER id SET DEFAULT gen_random_uuid(), " +
			"ALTER started_at TYPE timestamp",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := migrated(t)
			pg.Exec(t, "SET timezone = 'UTC'; "+shape)
			add := func(source, status, trigger, err string, second int) {
				t.Helper()
				pg.Exec(t, "INSERT INTO crawl_runs (source_code, status, trigger, error, started_at) VALUES ('"+source+"', '"+status+"', "+trigger+", '"+err+"', '"+at(second).Format("2006-01-02 15:04:05Z")+"')")
			}
			const sched = "'schedule'"
			add("three", "succeeded", sched, "", 1)
			add("three", "failed", sched, "first", 2)
			add("three", "interrupted", sched, "gone (crashed: exit 1)", 3)
			add("three", "interrupted", sched, "gone (restarted: exit 0)", 4) // asked for: it does not count
			add("three", "cancelled", sched, "", 5)                           // neither
			add("three", "failed", "'backfill'", "not ours", 6)
			add("three", "failed", "null", "not ours", 7)
			add("three", "failed", sched, "last", 8)
			add("three", "running", sched, "", 9)
			add("well", "failed", sched, "", 1)
			add("well", "ok", sched, "", 2)
			add("many", "succeeded", sched, "", 0)
			for i := range 9 {
				add("many", "failed", sched, "", i+1)
			}
			query := []StreakQuery{
				{Source: "three", Most: 10}, {Source: "well", Most: 10}, {Source: "many", Most: 4}, {Source: "none", Most: 10},
			}
			got, err := open(t, pg).Streaks(t.Context(), query, verdicts)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]Streak{
				"three": {Failures: 3, Newest: at(8).Truncate(time.Second), NewestFailed: true, NewestError: "last", Open: true},
				"well":  {Newest: at(2).Truncate(time.Second)},
				"many":  {Failures: 4, Newest: at(9).Truncate(time.Second), NewestFailed: true},
				"none":  {},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			got, err = open(t, pg).Streaks(t.Context(), []StreakQuery{{Source: "three", Since: at(3), Most: 10}, {Source: "many", Since: at(9), Most: 4}}, verdicts)
			if err != nil || got["three"].Failures != 1 || got["many"].Failures != 0 {
				t.Errorf("what was started before counts: %+v, %v", got, err)
			}
		})
	}
}

func TestWhoseAPauseIs(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "INSERT INTO sources (code, collector) VALUES ('a', 'news')")
	store := open(t, pg)
	journal := NewJournal(store, JournalOptions{})
	runJournal(t, journal)
	change := func(c SourceChange) {
		t.Helper()
		c.Source = "a"
		journal.Change(c)
		if err := journal.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	read := func() Source {
		t.Helper()
		all, err := store.Sources(t.Context(), "news")
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		return all[0]
	}
	change(SourceChange{PausedUntil: Some(at(9)), PauseReason: Some("ten in a row"), PausedBy: Some("crawlkeeper"), Rest: Some(Rest{Level: 2, Since: at(1)})})
	if s := read(); s.PauseReason != "ten in a row" || s.Rest != (Rest{2, at(1)}) || !s.OwnsPause() {
		t.Errorf("ours: %+v", s)
	}
	pg.Exec(t, "UPDATE sources SET paused_until = '2030-01-01Z'")
	if s := read(); s.PauseReason != "" || s.PausedBy != "" || s.OwnsPause() {
		t.Errorf("somebody else's: %+v", s)
	}
	pg.Exec(t, "UPDATE sources SET paused_until = null")
	if s := read(); s.OwnsPause() {
		t.Errorf("somebody else ended it: %+v", s)
	}
	change(SourceChange{PausedUntil: Null[time.Time](), PauseReason: Null[string](), PausedBy: Null[string](), Rest: Some(Rest{Since: at(3)})})
	if s := read(); !s.OwnsPause() || s.Rest != (Rest{0, at(3)}) {
		t.Errorf("resumed: %+v", s)
	}
	edit := SourceEdit{Code: "a", PausedUntil: Some(FarFuture), PauseReason: Some("broken site")}
	if err := store.Edit(t.Context(), "news", []SourceEdit{edit}); err != nil {
		t.Fatal(err)
	}
	if s := read(); s.PauseReason != "broken site" {
		t.Errorf("an edit: %+v", s)
	}
	if err := store.Edit(t.Context(), "news", []SourceEdit{{Code: "a", PauseReason: Some("still broken")}}); err != nil {
		t.Fatal(err)
	}
	if s := read(); s.PauseReason != "still broken" {
		t.Errorf("an edit of the reason alone: %+v", s)
	}
	pg.Exec(t, "UPDATE sources SET paused_until = '2031-01-01Z'")
	if err := store.Edit(t.Context(), "news", []SourceEdit{{Code: "a", PausedBy: Some("me")}}); err != nil {
		t.Fatal(err)
	}
	if s := read(); s.PausedBy != "me" {
		t.Errorf("an edit speaks of the pause that there is: %+v", s)
	}
}

// Who edits a pause is somebody else: the source does not rest any more.
func TestAnEditOfThePauseEndsTheRest(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, paused_until) VALUES ('a', 'news', '2030-01-01Z'), ('b', 'news', '2030-01-01Z');
		INSERT INTO crawl_source_options (code, paused_until, pause_reason, paused_by, rest_level, rest_since)
		SELECT code, paused_until, 'failed', 'crawlkeeper', 3, '2029-01-01Z' FROM sources`)
	store := open(t, pg)
	edits := []SourceEdit{{Code: "a", PausedUntil: Null[time.Time]()}, {Code: "b", IntervalSeconds: Some(5)}}
	for i, want := range []Applied{{Updated: 2}, {Unchanged: 2}} {
		if got, err := store.Apply(t.Context(), "news", edits); err != nil || got != want {
			t.Errorf("time %d: %+v, %v, want %+v", i+1, got, err, want)
		}
	}
	got, err := store.Sources(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	if a := got[0]; a.Rest.Level != 0 || time.Since(a.Rest.Since) > time.Hour {
		t.Errorf("the pause was taken away, and yet %+v", a.Rest)
	}
	if b := got[1]; b.Rest.Level != 3 || b.PausedBy != "crawlkeeper" {
		t.Errorf("nobody touched the pause, and yet %+v by %q", b.Rest, b.PausedBy)
	}
}
