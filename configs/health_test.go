package configs

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
defaults: {health: [{type: run, for: 2h}]}
adapters:
  '*': {command: [x]}
  own:
    command: [x]
    health:
      - {type: http, url: "http://127.0.0.1/{code}", every: 1s, healthy: 2}
      - {type: tick_taken, for: 30m, action: restart}
  none: {command: [x], health: []}
`)
	shared, own := c.Adapters["*"].Health, c.Adapters["own"].Health
	if len(shared) != 1 || shared[0].Type != CheckRun || shared[0].For != 2*time.Hour || shared[0].Restarts() {
		t.Errorf("what all share: %+v", shared)
	}
	want := defaultCheck()
	want.Type, want.URL, want.Every, want.Healthy = CheckHTTP, "http://127.0.0.1/{code}", time.Second, 2
	if len(own) != 2 || !reflect.DeepEqual(own[0], want) || !own[0].Restarts() || !own[1].Restarts() {
		t.Errorf("its own: %+v", own)
	}
	if n := len(c.Adapters["none"].Health); n != 0 {
		t.Errorf("%d checks where none are wanted", n)
	}
}

func TestWhatIsWrongWithHealth(t *testing.T) {
	t.Parallel()
	for check, want := range map[string]string{
		"{}":                                     "needs a type: http, tcp, command",
		"{type: htp}":                            "did you mean http?",
		"null":                                   "must be a mapping",
		"http":                                   "must be a mapping",
		"{type: http}":                           "url must be a URL",
		"{type: http, url: 'ftp://x'}":           "url must be a URL",
		"{type: http, url: 'http://x', for: 1m}": "for means nothing for a check of type http",
		"{type: http, url: 'http://x', status: 99}": "status must be from 100 to 599",
		"{type: tcp}":                           "address must be host:port",
		"{type: tcp, address: 'x:70000'}":       "address must be host:port",
		"{type: command}":                       "command must name a program",
		"{type: command, command: ['{code}']}":  "must not take the program's name",
		"{type: tick_taken}":                    "needs how long that may last",
		"{type: run, for: -1s}":                 "needs how long that may last",
		"{type: run, for: 1h, every: 1ms}":      "every must be at least 100ms",
		"{type: run, for: 1h, unhealthy: 0}":    "unhealthy must be at least 1",
		"{type: run, for: 1h, healthy: 0}":      "healthy must be at least 1",
		"{type: run, for: 1h, after: -1s}":      "after must not be negative",
		"{type: run, for: 1h, timeout: 0s}":     "timeout must be longer than 0",
		"{type: run, for: 1h, action: kill}":    "action must be report or restart",
		"{type: run, for: 1h, url: 'http://x'}": "url means nothing for a check of type run, only for http",
		"{type: run, for: 1h, evry: 1s}":        `did you mean "every"?`,
		"{type: output, for: 1h}":               "cannot see the crawler's output",
	} {
		got := parseError("adapters: {'*': {command: [x], output: discard, health: [" + check + "]}}")
		if !strings.Contains(got, want) || strings.Count(got, "health[0]") > 1 {
			t.Errorf("%q: %q is not in\n%s", check, want, got)
		}
	}
	if got := parseError("adapters: {'*': {command: [x], health: {type: run}}}"); !strings.Contains(got, "must be a list of checks") {
		t.Error(got)
	}
}

// The keys of a check stand in a comment of the example, with their defaults.
func TestExampleNamesEveryKeyOfACheck(t *testing.T) {
	t.Parallel()
	comment := exampleKeys(t)["defaults.health"]
	for f, v := range reflect.ValueOf(defaultCheck()).Fields() {
		line := ""
		for l := range strings.Lines(comment) {
			if strings.HasPrefix(l, "  #   "+f.Tag.Get("yaml")+" ") {
				line = l
			}
		}
		if line == "" || f.Name != "Type" && !strings.Contains(line, "Default: "+shownDefault(v)) {
			t.Errorf("%s: not in the example with its default: %q", f.Tag.Get("yaml"), line)
		}
	}
}
