package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

// runsWorld has runs of two sources; times are relative to now.
func runsWorld(t *testing.T) (*testenv.PG, []string) {
	t.Helper()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO crawl_runs (id, source_code, status, trigger, started_at, finished_at, error) VALUES
		(1, 'a', 'succeeded', 'schedule', now() - interval '3 h', now() - interval '3 h' + interval '2.35 s', null),
		(2, 'a', 'failed', 'restart', now() - interval '2 h', now() - interval '2 h' + interval '90 s', E'HTTP 500\nx'),
		(3, 'a', 'success', 'schedule', now() - interval '1 h', now() - interval '1 h' + interval '340 ms', null),
		(4, 'b', 'interrupted', 'startup', now() - interval '50 min', now() - interval '49 min', 'gone'),
		(5, 'b', 'running', null, now() - interval '10 min', null, null),
		(6, 'b', 'strange', 'backfill', now() - interval '3 d', null, null);
		INSERT INTO crawl_run_facts (run_id, tick_id, process_id, items, pages) VALUES
		('1', 'tick', '0196f0a0-0000-7000-8000-00000000abcd', 12, 3), ('3', null, null, 5, null)`)
	return pg, environ
}

func TestRunsTable(t *testing.T) {
	t.Parallel()
	_, environ := runsWorld(t)
	got := call(t, environ, "runs").want(t, exitDone, "", "")
	for i, want := range []string{
		"STARTED     SOURCE  STATUS       TRIGGER      TOOK  ITEMS  PAGES  PROCESS       ERROR",
		"10 min ago  b       running      -         10 min…      -      -  -",
		"50 min ago  b       interrupted  startup      60 s      -      -  -             gone",
		"1 h ago     a       success      schedule   340 ms      5      -  -",
		`2 h ago     a       failed       restart      90 s      -      -  -             HTTP 500\nx`,
		"3 h ago     a       succeeded    schedule    2.3 s     12      3  00000000abcd",
		"3 d ago     b       strange      backfill        -      -      -  -",
	} {
		if l := lines(got.stdout); l[i] != want {
			t.Errorf("got  %s\nwant %s", l[i], want)
		}
	}
	for args, want := range map[string]int{
		"a": 3, "none": 0, "--status running": 1, "--since 90m": 3, "--limit 2": 2, "b --since 2d --limit 0": 2, "--since 2020-01-01": 6,
	} {
		got := call(t, environ, append([]string{"runs"}, strings.Split(args, " ")...)...).want(t, exitDone, "STARTED", "")
		if n := len(lines(got.stdout)) - 1; n != want {
			t.Errorf("%s: %d runs, want %d", args, n, want)
		}
	}
	call(t, environ, "runs", "--since", "lately").want(t, exitUsage, "", `--since "lately" is neither`)
}

func TestRunsJSON(t *testing.T) {
	t.Parallel()
	_, environ := runsWorld(t)
	var object struct{ Runs []map[string]any }
	if err := json.Unmarshal([]byte(call(t, environ, "runs", "--json", "a").stdout), &object); err != nil {
		t.Fatal(err)
	}
	if len(object.Runs) != 3 {
		t.Fatalf("there are %v", object.Runs)
	}
	r := object.Runs[2]
	if r["id"] != "1" || r["took_seconds"] != 2.35 || r["items"] != 12.0 || r["error"] != nil || r["tick_id"] != "tick" {
		t.Errorf("it says %v", r)
	}
	if _, err := time.Parse(time.RFC3339, r["started_at"].(string)); err != nil {
		t.Error(err)
	}
	if got := call(t, environ, "runs", "--json", "none").stdout; got != "{\"runs\":[]}\n" {
		t.Errorf("without runs it says %s", got)
	}
}

func TestRunsSummary(t *testing.T) {
	t.Parallel()
	_, environ := runsWorld(t)
	wantText(t, call(t, environ, "runs", "--summary").want(t, exitDone, "", "").stdout,
		"SOURCE  RUNS  SUCCEEDED  FAILED  INTERRUPTED  RUNNING  OTHER  ITEMS    P50  LAST",
		"a          3          2       1            0        0      0     17  2.3 s  1 h ago",
		"b          2          0       0            1        1      0      0   60 s  10 min ago")
	call(t, environ, "runs", "--summary", "--since", "7d", "--json").want(t, exitDone, `"source":"b","runs":3,"succeeded":0,"failed":0,"interrupted":1,"running":1,"other":1,`, "")
}

func TestParseSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90m": "2026-11-29T10:30:00Z", "2d": "2026-11-27T12:00:00Z", "10:41": "2026-11-29T10:41:00Z", "13:00": "2026-11-28T13:00:00Z",
		"2026-11-01": "2026-11-01T00:00:00Z", "2026-11-29T10:41:00+02:00": "2026-11-29T08:41:00Z",
	} {
		got, err := parseSince(text, now)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s is %v (%v), want %s", text, got, err, want)
		}
	}
}
