package configs

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The points of a crawler's life at which hooks run, in their order. What each means stands in docs/contract.md.
const (
	HookCreate     = "create"
	HookValidate   = "validate"
	HookAcquire    = "acquire"
	HookStart      = "start"
	HookHealthy    = "healthy"
	HookUnhealthy  = "unhealthy"
	HookBeforeStop = "before_stop"
	HookSuccess    = "success"
	HookFailure    = "failure"
	HookCancel     = "cancel"
	HookFinal      = "final"
)

// HookPoints are all of them.
var HookPoints = []string{
	HookCreate, HookValidate, HookAcquire, HookStart, HookHealthy, HookUnhealthy, HookBeforeStop, HookSuccess, HookFailure, HookCancel, HookFinal,
}

// The conditions of [Alert.When].
const (
	AlertCooling = "cooling" // a crawler ends again and again: it waits for its longest delay
	AlertUnwell  = "unwell"  // a crawler is unhealthy or stalled
	AlertLimit   = "limit"   // a crawler was ended as it used more than its adapter allows
	AlertRest    = "rest"    // a source was paused by the manager itself
	AlertLeaks   = "leaks"   // more was left behind than before; it belongs to no source
)

// AlertConditions are all of them.
var AlertConditions = []string{AlertCooling, AlertUnwell, AlertLimit, AlertRest, AlertLeaks}

// Hooks are what runs at the points of a crawler's life, by the name of the point.
type Hooks map[string][]Hook

// Hook is one command or one webhook.
type Hook struct {
	// A program with its arguments, never run by a shell. {code} is replaced by the source's code, but not in the program's name. The event comes as JSON on standard input.
	Command []string `yaml:"command"`
	// A URL that gets the event as JSON by POST; instead of command.
	Webhook Secret `yaml:"webhook"`
	// A file whose only content is the secret that signs what goes to the webhook. Relative to the working directory.
	SecretFile string `yaml:"secret_file"`
	// The variable of the manager's environment that holds that secret; its name begins with CRAWLKEEPER_HOOK_SECRET. Instead of secret_file.
	SecretEnv string `yaml:"secret_env"`
	// How long a command, or one attempt at a webhook, may take. Where the manager waits for a webhook: all attempts together.
	Timeout time.Duration `yaml:"timeout"`
	// How often a webhook is tried again that could not be reached or answered with 429 or 5xx.
	Retries int `yaml:"retries"`

	// key is what secret_file or secret_env held; nil where there is neither. Written by Load only. A pointer, as fmt prints what a
	// Secret hides where the field is not exported.
	key *Secret
}

// Key is the secret that signs; empty: nothing is signed.
func (h Hook) Key() Secret {
	if h.key == nil {
		return ""
	}
	return *h.key
}

// Argv returns the command for one source, with {code} replaced.
func (h Hook) Argv(code string) []string { return argvOf(h.Command, code) }

func (h *Hook) setDefaults() { h.Timeout, h.Retries = 10*time.Second, 3 }

// Alert tells of a condition: once when it begins, at most once a pause while it lasts, and once when it is over.
type Alert struct {
	// cooling (a crawler ends again and again), unwell (unhealthy or stalled), limit (it was ended for using too much), rest (paused by the manager itself) or leaks (more was left behind than before).
	When string `yaml:"when" enum:"cooling,unwell,limit,rest,leaks"`
	// Told only once it has lasted this long.
	After time.Duration `yaml:"after"`
	// Least time between two tellings about one source while the condition lasts or comes back.
	Pause time.Duration `yaml:"pause"`
	// What tells it.
	Hooks []Hook `yaml:"hooks"`
}

func (a *Alert) setDefaults() { a.Pause = time.Hour }

// merged returns a copy in which the points of others replace those of h.
func (h Hooks) merged(others Hooks) Hooks {
	all := maps.Clone(h)
	if all == nil {
		all = Hooks{}
	}
	maps.Copy(all, others)
	return all
}

// With returns the hooks of both at each point, those of h first.
func (h Hooks) With(others Hooks) Hooks {
	all := Hooks{}
	for _, hooks := range []Hooks{h, others} {
		for point, list := range hooks {
			if len(list) > 0 {
				all[point] = append(slices.Clone(all[point]), list...)
			}
		}
	}
	return all
}

const hookSecretPrefix = variablePrefix + "HOOK_SECRET"

// hookSecret reports whether a variable holds the secret of a hook.
func hookSecret(name string) bool { return strings.HasPrefix(name, hookSecretPrefix) }

// readHookSecrets takes the secrets from where the hooks say that they are.
func (c *Config) readHookSecrets(environ []string) []Problem {
	r := secretReader{config: c, environ: environ}
	r.hooks(c.Hooks, "hooks")
	r.hooks(c.Defaults.Hooks, "defaults.hooks")
	for _, name := range slices.Sorted(maps.Keys(c.Adapters)) {
		r.hooks(c.Adapters[name].Hooks, joinKey("adapters", name)+".hooks")
	}
	for i := range c.Alerts {
		r.list(c.Alerts[i].Hooks, indexed("alerts", i)+".hooks")
	}
	return r.problems
}

type secretReader struct {
	config   *Config
	environ  []string
	problems []Problem
}

func (r *secretReader) hooks(hooks Hooks, path string) {
	for _, point := range slices.Sorted(maps.Keys(hooks)) {
		r.list(hooks[point], joinKey(path, point))
	}
}

func (r *secretReader) list(list []Hook, path string) {
	for i := range list {
		h, at := &list[i], indexed(path, i)
		switch {
		case h.SecretFile != "":
			text, err := readSecret(h.SecretFile)
			if err != nil {
				r.fail(at+".secret_file", "%v", err)
			}
			h.key = &text
		case h.SecretEnv != "":
			text := Secret(lookup(r.environ, h.SecretEnv))
			if text == "" && hookSecret(h.SecretEnv) {
				r.fail(at+".secret_env", "names a variable that is not set")
			}
			h.key = &text
		}
	}
}

// fail notes a problem once: adapters share the hooks of `defaults`.
func (r *secretReader) fail(key, format string, args ...any) {
	k := checker{config: r.config}
	k.require(false, key, format, args...)
	r.problems = append(r.problems, k.problems...)
}

func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
