package configs

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One file with many faults: all are found in one reading, in order, each where it stands.
func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	got := parseError(`
redis:
  url: http://me:hunter2@host
  prefx: a
manager:
  status_interval: fast
  start_rate: "2"
  stop_timeout: 3s
  disabled: kept
http: 3
log:
  level: info
  level: debug
defaults:
  backoff: {min: 10s, max: 5}
adapters:
  rss:
    comand: scrapy
  a.b:
    command: scrapy crawl
    env: {A: [1], TMPDIR: y}
  "*":
    command: [ls]
    backoff: {min: 400s, jitter: 1.5}
    <<: {}
    [a]: b
`)
	want := strings.TrimSpace(`
f:3:8: redis.url has the unknown scheme "http"; there are redis, rediss, unix, redis+sentinel and rediss+sentinel
f:4:3: unknown key "prefx" in redis; did you mean "prefix"?
f:6:20: manager.status_interval must be a duration such as 500ms, 15s or 5m, not "fast"
f:7:15: manager.start_rate must be a number, without quotes
f:8:3: unknown key "stop_timeout" in manager; it belongs under defaults or an adapter
f:9:13: manager.disabled must be keep or stop, not "kept"
f:10:7: http must be a mapping of keys to values, not a single value
f:13:3: log.level is set twice, first in line 12
f:15:28: defaults.backoff.max needs a unit, as in 5s or 5m
f:17:3: adapters.rss.command must name a program, as in [scrapy, crawl, "{code}"]
f:18:5: unknown key "comand" in adapters.rss; did you mean "command"?
f:20:14: adapters."a.b".command must be a list, as in [one, two], not a single value
f:21:14: adapters."a.b".env.A must be text, not a list
f:21:27: adapters."a.b".env.TMPDIR must not be set: the manager sets it for each crawler
f:24:20: adapters.*.backoff.min is wrong: max (5m0s) must not be shorter than min (6m40s)
f:24:34: adapters.*.backoff.jitter must be from 0 to 1, not 1.5
f:25:5: adapters.*.<< is not supported; what adapters share stands under defaults
f:26:5: a key must be text, not a list
`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: [1":                         "f:2:1: while parsing a flow sequence: did not find expected ',' or ']'",
		"a: b: c":                       "f:1:5: a key cannot stand here: the indentation is wrong, or text that holds a colon and a space needs quotes",
		"log:\n\tlevel: info":           "f:2:1: nothing can begin with this character; indentation is made of spaces, and text that begins with @, ` or % stands in quotes",
		"redis: {url: *hunter2}":        "f:1:14: an alias (*name) has no anchor (&name) before it; text that begins with * or & stands in quotes",
		"redis: {url: !hunter2 x}":      "f:1:14: redis.url has a tag, which has no use here; text that begins with ! stands in quotes",
		"log: {level: info}\n---\na: 1": "f:2:1: a second document begins; the whole configuration stands in one",
		"- a":                           "f:1:1: the configuration must be a mapping of keys to values, not a list",
		"text":                          "f:1:1: the configuration must be a mapping of keys to values, not a single value",
		"redis: {url: \"a":              "f:1:16: the closing quote is missing",
	} {
		if got := parseError(text); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

// Go's own names of types mean nothing to those who write configurations.
func TestErrorsSpeakNoGo(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, s := range Default().settings() {
		parts := strings.Split(s.key, ".")
		for _, value := range []string{"{a: b}", "[{}]", "x"} {
			text := strings.Join(parts, ": {") + ": " + value + strings.Repeat("}", len(parts)-1)
			lines = append(lines, parseError(text))
		}
	}
	for _, line := range lines {
		for _, word := range []string{"string", "int64", "float", "struct", "[]", "configs.", "bool", "reflect", "yaml"} {
			if strings.Contains(line, word) {
				t.Errorf("%q speaks of %s", line, word)
			}
		}
	}
}

func TestProblemFields(t *testing.T) {
	t.Parallel()
	_, err := parse("", []byte("log:\n  level: loud"), nil)
	found, ok := errors.AsType[*Error](err)
	if !ok || len(found.Problems) != 1 {
		t.Fatalf("error %v", err)
	}
	want := Problem{Line: 2, Column: 10, Key: "log.level", Message: `must be debug, info, warn or error, not "loud"`}
	if diff := cmp.Diff(want, found.Problems[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := `line 2, column 10: log.level must be debug, info, warn or error, not "loud"`; err.Error() != want {
		t.Errorf("without a file's name: %s", err)
	}
}

// A rule that one value in `defaults` breaks for many adapters is one problem.
func TestSharedFaultIsSaidOnce(t *testing.T) {
	t.Parallel()
	got := parseError("defaults: {tick: x, dir: ''}\nadapters: {a: {command: [x]}, b: {command: [x]}, c: {command: [x]}}")
	want := `f:1:18: defaults.tick must be plain, bare or scrapy-redis, not "x"` + "\n" +
		`f:1:26: defaults.dir must not be empty; . is the manager's own`
	if got != want {
		t.Errorf("got %s", got)
	}
}
