package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crawlkeeper/internal/testenv"
)

// storeOnly is the environment of commands that need Postgres alone, and its database.
func storeOnly(t *testing.T) (*testenv.PG, []string) {
	t.Helper()
	pg := migratedDatabase(t)
	return pg, serversAt("redis://127.0.0.1:1/0", pg.URL())
}

// callIn is call with something on standard input.
func callIn(t *testing.T, environ []string, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), world{Args: args, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Environ: environ})
	return result{status, stdout.String(), stderr.String()}
}

// sourceRows is what stands in the database.
func sourceRows(t *testing.T, pg *testenv.PG) string {
	t.Helper()
	return testenv.Value[string](t, pg, `SELECT coalesce(string_agg((s.*, o.*)::text, E'\n' ORDER BY s.code), '')
		FROM sources s LEFT JOIN crawl_source_options o ON o.code = s.code::text`)
}

func TestSourcesApply(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	apply := func(file string, args ...string) result {
		t.Helper()
		return callIn(t, environ, file, append([]string{"sources", "apply", "-f", "-"}, args...)...)
	}
	const first = "- {code: a, interval: 1m, payload: {url: http://x/}}\n- {code: b, adapter: rss, schedule: '@hourly'}\n"

	got := apply(first, "--dry-run").want(t, exitDone, "", "")
	wantText(t, got.stdout, `+ a  interval 1m, payload {"url":"http://x/"}`, "+ b  adapter rss, schedule @hourly",
		"nothing was changed; it would be: 2 created, 0 changed, 0 deleted, 0 as they were")
	if rows := sourceRows(t, pg); rows != "" {
		t.Fatalf("a dry run wrote %s", rows)
	}
	apply(first).want(t, exitDone, "2 created, 0 changed, 0 deleted, 0 as they were\n", "")
	before := sourceRows(t, pg)
	wantText(t, apply(first).want(t, exitDone, "", "").stdout, "0 created, 0 changed, 0 deleted, 2 as they were")
	if rows := sourceRows(t, pg); rows != before {
		t.Errorf("the second time it changed\n%s to\n%s", before, rows)
	}

	const second = `[{"code": "a", "interval": null, "schedule": "0 4 * * *"}, {"code": "c"}]`
	got = apply(second, "--prune").want(t, exitUsage, "- b\n", "1 source would be deleted: nothing was changed; add --yes")
	if rows := sourceRows(t, pg); rows != before {
		t.Errorf("without --yes it changed\n%s to\n%s", before, rows)
	}
	wantText(t, apply(second, "--prune", "--yes").want(t, exitDone, "", "").stdout,
		"~ a  interval 1m → null, schedule null → 0 4 * * *", "+ c", "- b", "1 created, 1 changed, 1 deleted, 0 as they were")
	if got := testenv.Value[string](t, pg, "SELECT string_agg(code || coalesce(interval_seconds::text, '-'), ' ' ORDER BY code) FROM sources"); got != "a- c300" {
		t.Errorf("there are %s", got)
	}

	var object struct {
		Applied bool
		Updated int
		Changes []sourceChange
	}
	if err := json.Unmarshal([]byte(apply("- {code: c, enabled: false}", "--json").stdout), &object); err != nil {
		t.Fatal(err)
	}
	if len(object.Changes) != 1 || !object.Applied || object.Updated != 1 {
		t.Fatalf("it says %+v", object)
	}
	if c := object.Changes[0]; c.Code != "c" || c.Change != changeUpdate || !slices.Equal(c.Keys, []keyChange{{"enabled", "true", "false"}}) {
		t.Errorf("it says %+v", c)
	}
}

func TestSourcesApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, enabled) VALUES ('mine', 'news', true), ('theirs', 'shops', true)`)
	before := sourceRows(t, pg)
	file := filepath.Join(t.TempDir(), "sources.yaml")
	for text, problem := range map[string]string{
		"- code: new\n- code: mine\n  interval: -1s\n- code: x y":     file + ":3:13: mine.interval is refused",
		"- code: mine\n  enabled: false\n- code: theirs\n- code: new": `change source "theirs": it belongs to the collector "shops"`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := call(t, environ, "sources", "apply", "--prune", "--yes", "-f", file)
		if got.status == exitDone || !strings.Contains(got.stderr, problem) || sourceRows(t, pg) != before {
			t.Errorf("exit status %d, stderr %s\nin the database are %s", got.status, got.stderr, sourceRows(t, pg))
		}
	}
	call(t, environ, "sources", "apply", "-f", file+"none").want(t, exitFailed, "", "no such file")
	call(t, nowhere(), "sources", "list").want(t, exitFailed, "", "reach Postgres")
}

// What stands in a table of a user's own, with everything that is odd, goes round: nothing changes, and a new database holds the same.
func TestSourcesExportRoundTrips(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `ALTER TABLE sources ALTER history_position TYPE date;
		INSERT INTO sources (code, collector, adapter, enabled, interval_seconds, backfill_hours, history_target, history_position, history_done, consecutive_failures, paused_until) VALUES
		('plain', 'news', 'rss', true, 300, 24, null, null, false, 0, null),
		('nulls', 'news', null, null, null, null, null, null, null, null, null),
		('empty', 'news', '', false, 86400, 0, null, null, false, 0, null),
		('123', 'news', 'true', true, 90, 24, '2025-01-01 10:00:00.5+02', '2025-06-01', false, 7, 'infinity'),
		('größe:x', 'news', E'a: b # "c" \n', true, 1, 24, '2025-01-01', '-infinity', true, 2, '2030-01-01 00:00:00.000001+00'),
		('theirs', 'shops', 'x', true, 1, 1, null, null, false, 0, null);
		INSERT INTO crawl_source_options (code, schedule, timezone, jitter_seconds, payload, pause_reason, paused_by, wanted) VALUES
		('123', '*/5 * * * *', 'Europe/Berlin', 0.1, '{"n": 1.50, "big": 123456789012345678901234567890, "e": 1e20, "s": "1e3\n😀", "null": null, "": {}, "l": [[], "~"]}', 'no: "reason"', 'me@box', 'stopped'),
		('plain', null, null, null, null, null, null, 'up'), ('nulls', '', '', 0, '{}', '', '', null)`)
	before := sourceRows(t, pg)
	other, otherEnviron := storeOnly(t)
	for _, format := range [][]string{{"--state"}, {"--state", "--json"}, {}, {"--json"}} {
		file := call(t, environ, append([]string{"sources", "export"}, format...)...).want(t, exitDone, "", "").stdout
		got := callIn(t, environ, file, "sources", "apply", "-f", "-", "--prune")
		got.want(t, exitDone, "0 created, 0 changed, 0 deleted, 5 as they were\n", "")
		if rows := sourceRows(t, pg); rows != before {
			t.Fatalf("%v changed\n%s to\n%s", format, before, rows)
		}
		other.Exec(t, "DELETE FROM sources; DELETE FROM crawl_source_options")
		callIn(t, otherEnviron, file, "sources", "apply", "-f", "-").want(t, exitDone, "5 created", "")
		again := call(t, otherEnviron, append([]string{"sources", "export"}, format...)...).stdout
		again = strings.ReplaceAll(again, "0001-01-01T00:00:00+00:00", "0001-01-01") // there the column is a timestamp
		again = strings.ReplaceAll(again, "2025-06-01T00:00:00+00:00", "2025-06-01")
		if diff := cmp.Diff(file, again); diff != "" {
			t.Errorf("%v in a new database:\n%s", format, diff)
		}
	}
}

func TestSourcesExportText(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, adapter, enabled, interval_seconds, backfill_hours, consecutive_failures) VALUES ('a', 'news', 'rss', true, 300, null, 4);
		INSERT INTO crawl_source_options (code, payload) VALUES ('a', '{"url": "http://x/", "ids": [1, "2"]}')`)
	wantText(t, call(t, environ, "sources", "export").stdout,
		"- code: a", "  adapter: rss", "  enabled: true", "  interval: 5m", "  backfill_hours: null", "  payload:",
		"    ids:", "    - 1", "    - '2'", "    url: http://x/")
	wantText(t, call(t, environ, "sources", "export", "--json").stdout,
		"[", `{"code":"a","adapter":"rss","enabled":true,"interval":"5m","backfill_hours":null,"payload":{"ids":[1,"2"],"url":"http://x/"}}`, "]")
}

func TestSourcesEdit(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, enabled, interval_seconds) VALUES ('a', 'news', true, 60), ('b', 'news', false, 60), ('theirs', 'shops', true, 60)`)
	sources := func(args string) result {
		t.Helper()
		return call(t, environ, append([]string{"sources"}, strings.Split(args, " ")...)...)
	}
	wantText(t, sources("disable a b").want(t, exitDone, "", "").stdout, "~ a  enabled true → false", "1 changed, 1 as they were")
	wantText(t, sources("enable b b").want(t, exitDone, "", "").stdout, "~ b  enabled false → true", "1 changed, 0 as they were")
	before := sourceRows(t, pg)
	for args, problem := range map[string]string{
		"enable a none":             "unknown source: none",
		"disable theirs":            "unknown source: theirs",
		"set a":                     "say what to set",
		"set a --interval 5":        "--interval needs a unit, as in 5s or 5m",
		"set a --interval=-5m":      "--interval is refused",
		"set a --schedule nonsense": "--schedule is refused",
		"set a --payload [1]":       "--payload must be an object of names and values, not a list",
		"set a --payload {x":        "--payload must be a JSON object: ",
		"set a --timezone Nowhere":  "--timezone is refused",
		"set none --interval 5m":    "unknown source: none",
		"delete a":                  "1 source would be deleted: add --yes",
		"delete a none --yes":       "unknown source: none",
		"show none":                 "unknown source: none",
	} {
		if got := sources(args); got.status == exitDone || !strings.Contains(got.stderr, problem) || sourceRows(t, pg) != before {
			t.Errorf("%s: exit status %d, %s", args, got.status, got.stderr)
		}
	}
	sources(`set a --interval 2h --jitter 10s --timezone Europe/Berlin --adapter rss --payload {"n":1} --backfill-hours 5 --history-target 2026-01-01`).
		want(t, exitDone, `~ a  adapter null → rss, interval 1m → 2h, timezone null → Europe/Berlin, jitter null → 10s, backfill_hours null → 5, payload null → {"n":1}, history_target null → 2026-01-01T00:00:00+00:00`, "")
	sources(`set a --payload {"n":1.0}`).want(t, exitDone, "0 changed, 1 as they were\n", "")
	call(t, environ, "sources", "set", "a", "--schedule=", "--interval=").want(t, exitDone, "interval 2h → null", "warning: a will get no ticks: it has neither")
	sources("delete a b a --yes").want(t, exitDone, "2 sources deleted\n", "")
	if n := testenv.Value[int](t, pg, "SELECT count(*) FROM sources"); n != 1 {
		t.Errorf("%d sources are left", n)
	}
	sources("list").want(t, exitDone, "", `the collector "news" has no sources`)
}

func TestSourcesListAndShow(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, adapter, enabled, interval_seconds, backfill_hours, consecutive_failures, history_target, history_position) VALUES
		('a', 'news', 'rss', true, 5400, 24, 0, '2020-01-01', '2021-01-01'), ('b c', 'news', null, false, 60, null, 3, null, null), ('d', 'news', null, true, 0, 24, 0, null, null);
		INSERT INTO crawl_source_options (code, schedule, timezone, wanted, pause_reason) VALUES ('b c', '0 4 * * *', 'Europe/Berlin', null, null), ('a', null, null, 'stopped', null)`)
	got := lines(call(t, environ, "sources").want(t, exitDone, "", "").stdout)
	for i, want := range []string{
		"SOURCE  ADAPTER  ENABLED  WHEN                     BACKFILL  FAILURES  NOTES",
		"a       rss      yes      every 1h30m                  24 h         0  stopped; history to 2020-01-01T00:00:00+00:00, at 2021-01-01T00:00:00+00:00",
		"b c     -        no       0 4 * * * Europe/Berlin         -         3  no crawler: a code has letters, digits and _ . : - only, not ' '",
		"d       -        yes      every 0s                     24 h         0  no ticks: an interval of 0 s is not between 1 s and 10 years",
	} {
		if got[i] != want {
			t.Errorf("got  %s\nwant %s", got[i], want)
		}
	}
	var list struct{ Sources []map[string]any }
	if err := json.Unmarshal([]byte(call(t, environ, "sources", "list", "--json").stdout), &list); err != nil {
		t.Fatal(err)
	}
	if d := list.Sources[2]; len(list.Sources) != 3 || d["code"] != "d" || d["interval"] != "0s" || d["payload"] != nil || d["problem"] == nil || len(d) != len(sourceKeys)+2 {
		t.Errorf("it says %v", list.Sources)
	}
	call(t, environ, "sources", "show", "a").want(t, exitDone, "command               scrapy crawl custom_rss -a source_code=a\n", "")
	shown := call(t, environ, "sources", "show", "b c").want(t, exitDone, "problem", "")
	if n := strings.Count(shown.stdout, "\ndue "); n != 3 {
		t.Errorf("%d due times are shown:\n%s", n, shown.stdout)
	}
}

func TestCommandsOfTheDatabaseSayThatItIsNotMigrated(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	pg.Exec(t, testenv.OldSchema)
	environ := serversAt("redis://127.0.0.1:1/0", pg.URL())
	for _, args := range []string{"sources", "sources export", "sources enable a", "runs", "processes"} {
		call(t, environ, strings.Split(args, " ")...).want(t, exitUsage, "", "crawlkeeper migrate")
	}
}
