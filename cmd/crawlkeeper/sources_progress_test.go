package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const target = "2026-01-01T00:00:00+00:00"
	open := func(position string) sql.History { return sql.History{Target: target, Position: position} }
	since := func(d time.Duration, from string) sql.Backfill {
		return sql.Backfill{StartedAt: now.Add(-d), Target: target, From: from}
	}
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		history sql.History
		record  sql.Backfill
		share   float64 // -1: none
		ends    time.Time
		why     string
		says    string
	}{
		"none":            {sql.History{}, sql.Backfill{}, -1, time.Time{}, "", "has no history to fetch"},
		"half":            {open("2026-03-02T00:00:00+00:00"), since(10*day, "2026-05-01T00:00:00+00:00"), 0.5, now.Add(10 * day), "", "50 % of the way from 2026-05-01T00:00:00+00:00; at this pace done in 10 d"},
		"from its moment": {open("2026-06-15T06:00:00+00:00"), since(2*day, ""), 0.5, now.Add(2 * day), "", "50 % of the way from when it was asked for, 2 d ago; at this pace done in 2 d"},
		"a date column":   {sql.History{Target: "2026-01-01", Position: "2026-01-11"}, sql.Backfill{StartedAt: now.Add(-3 * day), Target: "2026-01-01", From: "2026-01-31"}, 2. / 3, now.Add(36 * time.Hour), "", "67 % of the way from 2026-01-31"},
		"almost":          {open("2026-01-01T00:00:01+00:00"), since(day, "2026-05-01T00:00:00+00:00"), 1, now, "", "99 % of the way"},
		"somebody else's": {open("2026-03-02T00:00:00+00:00"), sql.Backfill{}, 0.8195, time.Time{}, notOurs, "% of the way from now; no estimate: foreign"},
		"another target":  {open("2026-03-02T00:00:00+00:00"), sql.Backfill{StartedAt: now.Add(-day), Target: "2020-01-01T00:00:00+00:00"}, 0.8195, time.Time{}, notOurs, "no estimate: foreign"},
		"not begun":       {open(""), since(day, ""), 0, time.Time{}, notMoved, "not begun yet"},
		"unmoved":         {open("2026-05-01T00:00:00+00:00"), since(day, "2026-05-01T00:00:00+00:00"), 0, time.Time{}, notMoved, "0 % of the way from 2026-05-01T00:00:00+00:00; no estimate: unmoved"},
		"forward":         {open("2026-06-01T00:00:00+00:00"), since(day, "2026-05-01T00:00:00+00:00"), 0, time.Time{}, notMoved, "no estimate: unmoved"},
		"a clock set back": {open("2026-04-01T00:00:00+00:00"), since(-day, "2026-05-01T00:00:00+00:00"), 0.25, time.Time{}, notMoved,
			"no estimate: unmoved"},
		"for years":  {open("2026-04-30T23:59:00+00:00"), since(30*day, "2026-05-01T00:00:00+00:00"), 0, time.Time{}, notSoon, "no estimate: far"},
		"unreadable": {open("infinity"), since(day, ""), -1, time.Time{}, notAMoment, "no estimate: unreadable"},
		"done":       {sql.History{Target: target, Position: target, Done: true}, since(day, ""), 1, time.Time{}, "", "it reaches back to"},
	} {
		p := progressOf(c.history, c.record, now)
		if p.share == nil && c.share != -1 || p.share != nil && math.Abs(*p.share-c.share) > 0.001 {
			t.Errorf("%s: the share is not %v: %+v", name, c.share, p)
		}
		if p.noEnd != c.why || p.endsAt.Sub(c.ends).Abs() > time.Minute {
			t.Errorf("%s: done at %v, %q; want %v, %q", name, p.endsAt, p.noEnd, c.ends, c.why)
		}
		if text := p.text("a", now); !strings.Contains(text, c.says) {
			t.Errorf("%s: it says %q", name, text)
		}
	}
}

func TestBackfillForetellsItsEnd(t *testing.T) {
	t.Parallel()
	for name, column := range map[string]string{"timestamps": "timestamptz", "dates": "date"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, environ := storeOnly(t)
			if column == "date" {
				pg.Exec(t, "ALTER TABLE sources ALTER history_target TYPE date, ALTER history_position TYPE date")
			}
			pg.Exec(t, "INSERT INTO sources (code, collector, enabled, interval_seconds, history_done, history_position) VALUES ('a', 'news', true, 60, false, '2021-01-01')")
			read := func(args ...string) (p progressJSON) {
				t.Helper()
				got := call(t, environ, append([]string{"sources", "backfill", "a", "--json"}, args...)...).want(t, exitDone, "", "")
				if err := json.Unmarshal([]byte(got.stdout), &p); err != nil {
					t.Fatal(err)
				}
				return p
			}
			record := func() string {
				return testenv.Value[string](t, pg, `SELECT coalesce(max(backfill_target || ' ' || coalesce(backfill_from, '-') || ' ' || (backfill_started_at > now() - interval '1 hour')), 'none') FROM crawl_source_options`)
			}
			began := time.Now().Truncate(time.Second)
			if p := read("--from", "2020-12-22T06:00:00+02:00"); p.StartedAt == nil || p.From == nil || !strings.HasPrefix(*p.From, "2021-01-01") || p.EndsAt != nil || *p.NoEstimate != notMoved {
				t.Errorf("%+v", p)
			} else if at, _ := readTime(*p.StartedAt); at.Before(began) {
				t.Errorf("asked for at %v", at)
			}
			written := record()
			if written == "none" || !strings.HasSuffix(written, " true") {
				t.Errorf("the record is %s", written)
			}
			if read("--from", "2020-12-22T06:00:00+02:00"); record() != written {
				t.Errorf("asked for again: %s", record())
			}
			// Two days later five days are done, and about as many are left.
			pg.Exec(t, "UPDATE crawl_source_options SET backfill_started_at = now() - interval '2 days'; UPDATE sources SET history_position = '2020-12-27'")
			p := read()
			if p.Share == nil || *p.Share < 0.45 || *p.Share > 0.55 || p.EndsAt == nil || p.NoEstimate != nil {
				t.Fatalf("%+v", p)
			}
			if at, _ := readTime(*p.EndsAt); time.Until(at) < 40*time.Hour || time.Until(at) > 56*time.Hour {
				t.Errorf("done at %v", at)
			}
			pg.Exec(t, "UPDATE sources SET history_target = '2019-01-01'")
			if p := read(); p.EndsAt != nil || *p.NoEstimate != notOurs || p.StartedAt != nil {
				t.Errorf("somebody else's: %+v", p)
			}
			// Who asks for the same is the one who asked.
			if p := read("--from", "2019-01-01"); p.StartedAt == nil || *p.NoEstimate != notMoved {
				t.Errorf("%+v", p)
			}
			if read("--cancel"); record() != "none" {
				t.Errorf("taken back: %s", record())
			}
		})
	}
}

// A history that is asked for again, after its crawler found nothing older, begins at that moment.
func TestBackfillAskedForAnewBeginsAnew(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, "INSERT INTO sources (code, collector, enabled, interval_seconds, history_done, history_position) VALUES ('a', 'news', true, 60, false, '2022-01-01')")
	call(t, environ, "sources", "backfill", "a", "--from", "2020-01-01").want(t, exitDone, "no estimate: unmoved", "")
	pg.Exec(t, "UPDATE crawl_source_options SET backfill_started_at = now() - interval '100 days'; UPDATE sources SET history_position = '2021-01-01', history_done = true")
	call(t, environ, "sources", "backfill", "a", "--from", "2020-01-01").want(t, exitDone, "0 % of the way from 2021-01-01T00:00:00+00:00; no estimate: unmoved", "")
}
