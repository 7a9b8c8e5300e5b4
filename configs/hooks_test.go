package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parse("", fmt.Appendf(nil, `
hooks: {final: [{webhook: "https://h/x", secret_file: %q}]}
alerts: [{when: cooling, after: 5m, hooks: [{webhook: "http://h/", secret_env: CRAWLKEEPER_HOOK_SECRET_A, retries: 0}]}]
defaults: {hooks: {final: [{command: [a, "{code}"]}], start: [{command: [b], timeout: 1m}]}}
adapters: {x: {command: [c], hooks: {final: [{command: [d]}, {command: [e]}]}}, y: {command: [c]}}
`, secret), []string{"CRAWLKEEPER_HOOK_SECRET_A=hunter3"})
	if err != nil {
		t.Fatal(err)
	}
	fleet := c.Hooks["final"][0]
	if fleet.Key().Reveal() != "hunter2" || fleet.Timeout != 10*time.Second || fleet.Retries != 3 {
		t.Errorf("the fleet's: %+v, key %q", fleet, fleet.Key().Reveal())
	}
	alert := c.Alerts[0]
	if alert.After != 5*time.Minute || alert.Pause != time.Hour || alert.Hooks[0].Key().Reveal() != "hunter3" || alert.Hooks[0].Retries != 0 {
		t.Errorf("alert: %+v", alert)
	}
	x, y := c.Adapters["x"].Hooks, c.Adapters["y"].Hooks
	if len(x["final"]) != 2 || x["start"][0].Timeout != time.Minute {
		t.Errorf("a point of an adapter replaces that of the defaults alone: %+v", x)
	}
	if got := y["final"][0].Argv("s"); !slices.Equal(got, []string{"a", "s"}) {
		t.Errorf("the defaults' command for s: %q", got)
	}
	all := c.Hooks.With(x)
	if len(all["final"]) != 3 || all["final"][0].Webhook == "" || len(c.Hooks["final"]) != 1 {
		t.Errorf("the fleet's come first: %+v", all)
	}
	if text := fmt.Sprintf("%+v %v %#v", c, c.Hooks, alert); strings.Contains(text, "hunter") {
		t.Errorf("a secret is shown: %s", text)
	}
	if got := c.Adapters["x"].Inherit([]string{"CRAWLKEEPER_HOOK_SECRET_A=hunter3", "CRAWLKEEPER_HOOK=final", "A=b"}); !slices.Equal(got, []string{"A=b"}) {
		t.Errorf("a crawler inherits %q", got)
	}
}

func TestHooksThatAreWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hooks: {fianl: []}":                                                         "did you mean final?",
		"hooks: {final: {}}":                                                         "hooks.final must be a list of mappings",
		"hooks: {final: [x]}":                                                        "hooks.final[0] must be a mapping",
		"hooks: {final: [{}]}":                                                       "hooks.final[0] must have a command or a webhook",
		"hooks: {final: [{comand: [x]}]}":                                            `did you mean "command"?`,
		"hooks: {final: [{command: [x], webhook: http://h}]}":                        "both a command and a webhook",
		"hooks: {final: [{command: ['{code}']}]}":                                    "must not take the program's name",
		"hooks: {final: [{command: [x], timeout: 0s}]}":                              "hooks.final[0].timeout must be longer than 0",
		"hooks: {final: [{command: [x], retries: 21}]}":                              "hooks.final[0].retries must be from 0 to 20",
		"hooks: {final: [{command: [x], secret_env: CRAWLKEEPER_HOOK_SECRET}]}":      "a secret without a webhook",
		"hooks: {final: [{webhook: ftp://h}]}":                                       "http:// or https://",
		"hooks: {final: [{webhook: http://h, secret_env: A}]}":                       "must begin with CRAWLKEEPER_HOOK_SECRET",
		"hooks: {final: [{webhook: http://h, secret_env: CRAWLKEEPER_HOOK_SECRET}]}": "names a variable that is not set",
		"hooks: {final: [{webhook: http://h, secret_file: /no/such}]}":               "cannot be read",
		"adapters: {a: {command: [x], hooks: {final: [{}]}}}":                        "adapters.a.hooks.final[0] must have",
		"alerts: [{when: cool, hooks: [{command: [x]}]}]":                            "must be cooling, unwell, limit, rest or leaks",
		"alerts: [{when: cooling}]":                                                  "alerts[0].hooks must list at least one hook",
		"alerts: [{when: cooling, pause: 1s, hooks: [{command: [x]}]}]":              "alerts[0].pause must be at least 1m0s",
	} {
		if got := parseError(text); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if _, err := parse("", nil, []string{"CRAWLKEEPER_HOOKS=x"}); err == nil || !strings.Contains(err.Error(), "is a mapping; set hooks in the file") {
		t.Errorf("by a variable: %v", err)
	}
}
