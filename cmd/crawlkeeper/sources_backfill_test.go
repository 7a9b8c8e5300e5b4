package main

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

// historyOf is what stands in the database.
func historyOf(t *testing.T, pg *testenv.PG) string {
	t.Helper()
	return testenv.Value[string](t, pg, `SELECT coalesce(history_target::text, '-') || ' ' || coalesce(history_position::text, '-') || ' ' || coalesce(history_done::text, '-') FROM sources WHERE code = 'a'`)
}

func TestBackfill(t *testing.T) {
	t.Parallel()
	const at = " 00:00:00+00"
	for name, column := range map[string]string{"timestamps": "timestamptz", "dates": "date"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, environ := storeOnly(t)
			suffix, iso := at, "T00:00:00+00:00"
			if column == "date" {
				suffix, iso = "", ""
				pg.Exec(t, "ALTER TABLE sources ALTER history_target TYPE date, ALTER history_position TYPE date")
			}
			pg.Exec(t, "INSERT INTO sources (code, collector, enabled, interval_seconds, history_done) VALUES ('a', 'news', true, 60, false)")
			for _, step := range []struct{ crawler, flag, stdout, history string }{
				{"", "", "a has no history to fetch; `crawlkeeper sources backfill a --from DATE` asks for it\n", "- - false"},
				{"", "--from=2020-01-01", "a: history to 2020-01-01" + iso + ", not begun yet\n", "2020-01-01" + suffix + " - false"},
				// Older than the position: it goes on from there.
				{"history_position = '2022-01-01'", "--from=2019-01-01", "a: history to 2019-01-01" + iso + ", at 2022-01-01" + iso + ", ", "2019-01-01" + suffix + " 2022-01-01" + suffix + " false"},
				// Newer: it was fetched.
				{"", "--from=2023-01-01T00:00:00Z", "a: history to 2023-01-01" + iso + " is done, it reaches back to 2022-01-01" + iso + "; --cancel and then --from", "2023-01-01" + suffix + " 2022-01-01" + suffix + " true"},
				{"", "--from=2022-01-01", " is done", "2022-01-01" + suffix + " 2022-01-01" + suffix + " true"},
				{"", "--from=2021-12-31", "at 2022-01-01", "2021-12-31" + suffix + " 2022-01-01" + suffix + " false"},
				{"history_done = true", "", "a: history to 2021-12-31" + iso + " is done: its crawler found nothing older than 2022-01-01" + iso, "2021-12-31" + suffix + " 2022-01-01" + suffix + " true"},
				{"history_position = '2021-12-30'", "", " is done, it reaches back to 2021-12-30", "2021-12-31" + suffix + " 2021-12-30" + suffix + " true"},
				{"", "--cancel", "a has no history to fetch", "- - false"},
				{"", "--cancel", "a has no history to fetch", "- - false"},
			} {
				if step.crawler != "" {
					pg.Exec(t, "UPDATE sources SET "+step.crawler)
				}
				args := []string{"sources", "backfill", "a"}
				if step.flag != "" {
					args = append(args, step.flag)
				}
				if got := call(t, environ, args...).want(t, exitDone, step.stdout, ""); got.stderr != "" {
					t.Errorf("%v complains: %s", args, got.stderr)
				}
				if got := historyOf(t, pg); got != step.history {
					t.Fatalf("%v: the history is %s, want %s", args, got, step.history)
				}
			}
		})
	}
}

func TestBackfillJSON(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, "INSERT INTO sources (code, collector, enabled, interval_seconds, history_target, history_position) VALUES ('a', 'news', true, 60, now() - interval '400 days', now() - interval '100 days')")
	read := func(args ...string) (p progressJSON) {
		t.Helper()
		got := call(t, environ, append([]string{"sources", "backfill", "a", "--json"}, args...)...).want(t, exitDone, "", "")
		if err := json.Unmarshal([]byte(got.stdout), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := read(); p.Code != "a" || p.State != "open" || p.Share == nil || math.Abs(*p.Share-0.25) > 0.001 || p.Changed || *p.Target == "" || *p.Position == "" {
		t.Errorf("it says %+v", p)
	}
	if p := read("--from", time.Now().AddDate(0, 0, -50).Format(time.DateOnly)); p.State != "done" || *p.Share != 1 || !p.Changed {
		t.Errorf("a newer target: %+v", p)
	}
	if p := read("--cancel"); p.State != "none" || p.Target != nil || p.Position != nil || p.Share != nil || !p.Changed {
		t.Errorf("taken back: %+v", p)
	}
	if p := read("--cancel"); p.Changed {
		t.Errorf("taken back again: %+v", p)
	}
	if p := read("--from", "0001-01-01"); p.State != "open" || *p.Share != 0 {
		t.Errorf("from the beginning: %+v", p)
	}
	pg.Exec(t, "UPDATE sources SET history_position = now() - interval '1000 years'")
	if p := read(); *p.Share < 0.4 || *p.Share > 0.6 {
		t.Errorf("half of the way: %+v", p)
	}
}

func TestBackfillSaysWhatToDo(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, enabled, interval_seconds, paused_until, history_position) VALUES ('a', 'news', true, 60, null, null),
		('off', 'news', false, 60, null, null), ('paused', 'news', true, 60, now() + interval '90 minutes', null), ('stopped', 'news', true, 60, null, null), ('never', 'news', true, null, null, null),
		('theirs', 'shops', true, 60, null, null);
		INSERT INTO crawl_source_options (code, wanted) VALUES ('stopped', 'stopped')`)
	before := sourceRows(t, pg)
	for _, refused := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"a", "--from", "soon"}, exitUsage, `--from must be a time such as 2026-11-29 or 2026-11-29T10:41:00+00:00, not "soon"`},
		{[]string{"a", "--from="}, exitUsage, "--from must be a time such as 2026-11-29 or 2026-11-29T10:41:00+00:00; --cancel takes a history back"},
		{[]string{"a", "--from", "2999-01-01"}, exitUsage, `--from "2999-01-01" lies ahead: history is what was before now`},
		{[]string{"a", "--from", "2020-01-01", "--cancel"}, exitUsage, "give one of them"},
		{[]string{"nobody", "--from", "2020-01-01"}, exitFailed, "unknown source: nobody; `crawlkeeper sources list` shows those of the collector \"news\""},
		{[]string{"theirs", "--cancel"}, exitFailed, "unknown source: theirs"},
	} {
		call(t, environ, append([]string{"sources", "backfill"}, refused.args...)...).want(t, refused.status, "", refused.stderr)
	}
	if rows := sourceRows(t, pg); rows != before {
		t.Errorf("what was refused changed\n%s to\n%s", before, rows)
	}
	for code, warning := range map[string]string{
		"off":     "warning: off is disabled and gets no ticks: `crawlkeeper sources enable off`",
		"paused":  "warning: paused is paused, ends in 1 h: `crawlkeeper resume paused`",
		"stopped": "warning: stopped is stopped and gets no ticks: `crawlkeeper start stopped`",
		"never":   "warning: never will get no ticks: it has neither",
	} {
		call(t, environ, "sources", "backfill", code, "--from", "2020-01-01").want(t, exitDone, "not begun yet", warning)
	}
}
