package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/plain"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// hostile is what somebody may write into the database or into Redis: it clears the screen and sets the title (with both kinds of
// control characters), goes back over the line, begins a new one, turns text around, hides it, and spells an escape sequence.
const hostile = "evil\x1b[2J\x1b]0;owned\x07\u009b2J\rover\nline\u202egnirts\u200b\u2028\x7f\b \\x1b[2J \\u001b[2J"

// How it begins where it is shown.
const (
	shownAsText = `evil\x1b[2J`
	shownAsJSON = `evil\u001b[2J`
)

// ourColours are those of tables and of the log.
var ourColours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// harmless checks that a text has nothing in it that a terminal obeys, but for ends of lines and our own colours.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	text = ourColours.ReplaceAllString(text, "")
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && plain.Hidden(r) }); i >= 0 {
		t.Errorf("%s writes %q", what, text[max(0, i-60):min(len(text), i+60)])
	}
}

// wantJSON checks that a text is JSON values and nothing else.
func wantJSON(t *testing.T, what, text string) {
	t.Helper()
	for values := json.NewDecoder(strings.NewReader(text)); ; {
		var value any
		if err := values.Decode(&value); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s writes what is no JSON (%v): %s", what, err, text)
			return
		}
	}
}

func TestNothingThatIsStoredReachesATerminal(t *testing.T) {
	t.Parallel()
	pg, server := migratedDatabase(t), testenv.Redis(t)
	record := status.Record{Phase: hostile, Problem: hostile, Paused: true, PausedBy: hostile, PauseReason: hostile, Manager: hostile, Trigger: hostile,
		LastExit: &status.Exit{At: time.Now(), Cause: hostile, Signal: hostile}}
	writeStatus(t, server, map[string]status.Record{hostile: record, "a": record}, &status.Holder{Name: hostile, Host: hostile, HTTP: hostile})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`INSERT INTO sources (code, collector, adapter, enabled, interval_seconds) VALUES ($1, 'news', $1, true, 60), ('a', 'news', $1, true, 60)`,
		`INSERT INTO crawl_source_options (code, schedule, timezone, payload, pause_reason, paused_by)
		  VALUES ($1, $1, $1, jsonb_build_object($1::text, $1::text), $1, $1), ('a', $1, $1, jsonb_build_object($1::text, $1::text), $1, $1)`,
		`INSERT INTO crawl_runs (source_code, status, trigger, error) VALUES ($1, $1, $1, $1), ($1, 'running', $1, $1), ('a', 'running', $1, $1)`,
		`INSERT INTO crawl_logs (source_code, level, message) VALUES ($1, $1, $1), ($1, 'ERROR', $1)`,
		`INSERT INTO crawl_processes (id, source, kind, manager, host, boot_id, pid, start_time, command, binary_path, dir, status, queued_at, started_at,
		    signal, cause, asked_by, last_lines)
		  SELECT gen_random_uuid(), $1, $1, $1, h, $1, 1, 1, jsonb_build_array($1::text), $1, $1, 'running', now(), now(), $1, $1, $1, $1
		  FROM unnest(ARRAY[$1, '` + host + `']) h`,
	} {
		pg.Exec(t, statement, hostile)
	}
	sources := filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(sources, []byte(`[{code: "bad\e[2Jcode", adapter: "\u202e", payload: {"\u202e": "\e[2J"}}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := serversAt(server.URL(), pg.URL())
	for _, c := range []struct {
		line       string
		status     int
		text, json string // what is said, without and with --json; empty: the value, escaped
	}{
		{"status", exitDone, "", ""},
		{"status a", exitDone, "", ""},
		{"status nobody", exitFailed, "nobody", "nobody"},
		{"sources list", exitDone, "", ""},
		{"sources export --state", exitDone, "", ""},
		{"sources apply --prune --yes --dry-run -f " + sources, exitUsage, `not '\x1b'`, `not '\x1b'`},
		{"sources disable a", exitDone, "", `"unchanged":1`}, // it is already
		{"sources set a --adapter b", exitDone, "", `"unchanged":1`},
		{"sources backfill a --from 2020-01-01", exitDone, "", shownAsText}, // in a warning
		{"runs", exitDone, "", ""},
		{"runs --summary", exitDone, "", ""},
		{"processes", exitDone, "", ""},
		{"processes -v", exitDone, "", ""},
		{"processes --tree", exitDone, "", ""},
		{"logs", exitDone, "", ""},
		{"output a", exitFailed, "", shownAsText},
		{"doctor", exitFailed, "", ""},
		{"run --dry-run", exitDone, "", ""},
		{"janitor --timeout 1s", exitFailed, "", shownAsText},
		{"restart a --timeout 1s", exitNoManager, "reached nobody", "reached nobody"},
	} {
		for i, shown := range []string{cmp.Or(c.text, shownAsText), cmp.Or(c.json, shownAsJSON)} {
			line := c.line + []string{"", " --json"}[i]
			r := call(t, environ, strings.Fields(line)...)
			harmless(t, line, r.stdout)
			harmless(t, line+" (stderr)", r.stderr)
			if r.status != c.status || !strings.Contains(r.stdout+r.stderr, shown) {
				t.Errorf("%s: exit status %d, want %d, and %s among\n%s\n%s", line, r.status, c.status, shown, r.stdout, r.stderr)
			}
			if i > 0 {
				wantJSON(t, line, r.stdout)
			}
		}
	}
	r := call(t, environ, "sources", "export", "--state")
	again := callIn(t, environ, r.stdout, "sources", "apply", "--dry-run", "-f", "-")
	if !strings.Contains(again.stdout+again.stderr, "a code has letters") {
		t.Errorf("what export writes is not what apply reads: %s%s", again.stdout, again.stderr)
	}
}

func TestRepliesAreHarmless(t *testing.T) {
	t.Parallel()
	f := startFake(t, func(c control.Command) *control.Reply {
		if c.Action == control.ActionJanitor {
			return &control.Reply{OK: true, Janitor: &control.Cleaning{
				Kinds: map[string]control.Count{hostile: {Found: 1}}, Problems: []string{hostile},
				Leaks: []control.Leak{{Kind: hostile, What: hostile, Source: hostile, Why: hostile}},
			}}
		}
		return &control.Reply{Error: hostile, Warning: hostile, Manager: hostile, Results: map[string]control.Result{hostile: {Error: hostile}}}
	})
	for _, line := range []string{"restart a", "restart a --json", "janitor", "janitor --json"} {
		r := call(t, f.environ, strings.Fields(line)...)
		harmless(t, line, r.stdout+r.stderr)
		if !strings.Contains(r.stdout+r.stderr, "evil") {
			t.Errorf("%s: %s%s", line, r.stdout, r.stderr)
		}
	}
}

// hostileText is a value that marshals itself, as a URL of the configuration does.
type hostileText struct{}

func (hostileText) MarshalText() ([]byte, error) { return []byte(hostile), nil }
func (hostileText) String() string               { return hostile }

func TestLogsAreHarmless(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(io.Writer) slog.Handler{
		"text":     func(w io.Writer) slog.Handler { return newLogHandler(w, configs.Log{Format: "text"}, false, false) },
		"coloured": func(w io.Writer) slog.Handler { return newLogHandler(w, configs.Log{Format: "text"}, true, true) },
		"JSON":     func(w io.Writer) slog.Handler { return newLogHandler(w, configs.Log{Format: "json"}, false, false) },
	} {
		var b bytes.Buffer
		log := slog.New(handler(&b)).With("before", hostile).WithGroup("group").With("within", hostile)
		log.Error("it broke: "+hostile, "text", hostile, "error", errors.New(hostile), "any", hostileText{}, "list", []string{hostile},
			slog.Group("more", "deep", hostile))
		harmless(t, name, b.String())
		if n := strings.Count(b.String(), "\n"); n != 1 {
			t.Errorf("%s: %d lines: %q", name, n, b.String())
		}
		if n := strings.Count(b.String(), "evil"); n != 8 {
			t.Errorf("%s: %d of 8 values are there: %q", name, n, b.String())
		}
	}
}

func TestTextLogsStayReadable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := slog.New(newLogHandler(&b, configs.Log{Format: "text"}, false, false))
	log.Info("ready at 100 %", "source", "日経", "error", errors.New("dial tcp: refused"), "n", 3, "took", 2*time.Second, "empty", "", "ok", true)
	_, line, _ := strings.Cut(b.String(), " ")
	wantText(t, line, `INF ready at 100 % source=日経 error="dial tcp: refused" n=3 took=2s empty="" ok=true`)
}

// Commands that are shown to be copied hold no more than a code.
func TestHintsAreHarmless(t *testing.T) {
	t.Parallel()
	const evil = "a ~* +@all; reboot"
	stopped := sourceStatus{code: evil, Record: status.Record{Phase: "stopped", Enabled: true, Manager: "m"}}
	if got := why(stopped, time.Now()); strings.Contains(got, evil) || !strings.Contains(got, "until `start`") {
		t.Errorf("%q", got)
	}
	d := doctor{sources: []sql.Source{{Code: evil}, {Code: "b"}}}
	if got := d.someCode(); got != "b" {
		t.Errorf("%q stands for all", got)
	}
}
