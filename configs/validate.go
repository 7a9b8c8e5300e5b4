package configs

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// shortestInterval keeps a slip of the unit from turning the status loop into a busy one.
const shortestInterval = 10 * time.Millisecond

// shortestKeep keeps a slip of the unit from removing what was written a moment ago.
const shortestKeep = time.Hour

// Validate checks every rule that a configuration obeys and returns one [*Error] with all that are broken. Load has called it; whoever
// changes a configuration afterwards, by flags, calls it again.
func (c *Config) Validate() error { return asError("", c.check()) }

func (c *Config) check() []Problem {
	k := &checker{config: c}
	k.words(reflect.ValueOf(c).Elem(), "")
	k.redis(c.Redis)
	k.err(c.Postgres.check(), "postgres.url")
	k.manager(c.Manager)
	k.http(c.HTTP)
	k.runs(c.Runs)
	k.keep(c.Keep)
	k.janitor(c.Janitor)
	k.hooks(c.Hooks, "hooks")
	k.alerts(c.Alerts)
	k.adapters(c.Adapters)
	return k.problems
}

// checker collects the rules that are broken.
type checker struct {
	config   *Config
	problems []Problem
}

// require notes a problem at the key unless the rule holds.
func (k *checker) require(holds bool, key, format string, args ...any) {
	if !holds {
		at, key := k.locate(key)
		k.problems = append(k.problems, at.problem(key, format, args...))
	}
}

func (k *checker) err(err error, key string) {
	if err != nil {
		k.require(false, key, "%v", err)
	}
}

// locate finds where a key was set: itself, else the nearest mapping around it. What an adapter has from `defaults` is reported under
// that name, so that one fault there is one problem.
func (k *checker) locate(key string) (place, string) {
	adapter := k.adapterOf(key)
	for around := key; around != ""; around = around[:max(0, strings.LastIndexAny(around, ".["))] {
		if at, set := k.config.where[around]; set {
			return at, key
		}
		if rest, inAdapter := strings.CutPrefix(around, adapter+"."); inAdapter && adapter != "" {
			if at, set := k.config.where["defaults."+rest]; set {
				return at, "defaults" + strings.TrimPrefix(key, adapter)
			}
		}
	}
	return place{}, key
}

// SetAs is the key of the file by which something was set: what an adapter has from `defaults` goes by that name.
func (c *Config) SetAs(key string) string {
	_, key = (&checker{config: c}).locate(key)
	return key
}

// adapterOf returns the path of the adapter that a key belongs to, or "".
func (k *checker) adapterOf(key string) string {
	for name := range k.config.Adapters {
		if path := joinKey("adapters", name); strings.HasPrefix(key, path+".") {
			return path
		}
	}
	return ""
}

// either returns the key at which a rule about two of them is reported: the one that was set here, the first one if both were.
func (k *checker) either(key, other string) string {
	_, set := k.config.where[key]
	if _, otherSet := k.config.where[other]; otherSet && !set {
		return other
	}
	return key
}

// words checks every text that has a fixed set of values.
func (k *checker) words(v reflect.Value, path string) {
	eachLeaf(v, path, func(path string, field reflect.StructField, v reflect.Value) {
		if enum, ok := field.Tag.Lookup("enum"); ok {
			allowed := strings.Split(enum, ",")
			k.require(slices.Contains(allowed, v.String()), path, "%s", notAllowed(v.String(), allowed))
		}
	})
}

func notAllowed(got string, allowed []string) string {
	text := fmt.Sprintf("must be %s, not %s", orList(allowed), quote(got))
	if near := nearest(got, allowed); near != "" {
		text += "; did you mean " + near + "?"
	}
	return text
}

// orList writes "a, b or c".
func orList(words []string) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = w
		if w == "" {
			shown[i] = `empty ("")`
		}
	}
	if last := len(shown) - 1; last > 0 {
		return strings.Join(shown[:last], ", ") + " or " + shown[last]
	}
	return strings.Join(shown, "")
}

func (k *checker) manager(m Manager) {
	k.require(printable(m.Name), "manager.name", "must not hold control characters")
	k.require(m.Collector != "", "manager.collector", "must not be empty")
	k.require(m.StartRate >= 0, "manager.start_rate", "must not be negative; 0 is no limit")
	k.require(m.StatusInterval >= shortestInterval, "manager.status_interval", "must be at least %s, not %s", shortestInterval, m.StatusInterval)
	k.require(m.StatusTTL > m.StatusInterval, k.either("manager.status_ttl", "manager.status_interval"),
		"is wrong: status_ttl (%s) must be longer than status_interval (%s), or the status expires between two writes", m.StatusTTL, m.StatusInterval)
	k.require(m.DrainTimeout >= 0, "manager.drain_timeout", "must not be negative")
}

func (k *checker) http(h HTTP) {
	if h.Listen == "" {
		return
	}
	_, port, err := net.SplitHostPort(h.Listen)
	k.require(err == nil && validPort(port), "http.listen", "must be host:port with a port from 0 to 65535, as in 127.0.0.1:9870, not %s", quote(h.Listen))
}

func (k *checker) runs(r Runs) {
	ours := []string{"running", "interrupted"}
	for _, list := range []struct {
		key   string
		words []string
	}{{"runs.succeeded", r.Succeeded}, {"runs.failed", r.Failed}} {
		for i, word := range list.words {
			key := fmt.Sprintf("%s[%d]", list.key, i)
			k.require(word != "", key, "must not be empty")
			k.require(!slices.Contains(ours, word), key, "must not be %s, which means something else", word)
		}
	}
	for i, word := range r.Failed {
		k.require(!slices.Contains(r.Succeeded, word), fmt.Sprintf("runs.failed[%d]", i), "lists %s, which runs.succeeded lists too", quote(word))
	}
	k.require(strings.TrimSpace(r.InterruptedText) != "", "runs.interrupted_text", "must not be empty")
}

// shortestAge keeps a slip of the unit from taking for left behind what is about to be used.
const shortestAge = time.Second

// janitor checks all but the cron line's finer points, which the manager checks at its start.
func (k *checker) janitor(j Janitor) {
	if j.Schedule != "" {
		_, err := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).Parse(j.Schedule)
		k.require(err == nil && !strings.Contains(j.Schedule, "TZ="), "janitor.schedule", `must be a cron line such as "0 3 * * *", not %s`, quote(j.Schedule))
	}
	_, err := time.LoadLocation(j.Timezone)
	k.require(err == nil && j.Timezone != "Local", "janitor.timezone", "must be a time zone such as Europe/Berlin, not %s", quote(j.Timezone))
	k.require(j.MinAge >= shortestAge, "janitor.min_age", "must be at least %s, not %s", shortestAge, j.MinAge)
}

func (k *checker) keep(keep Keep) {
	for _, age := range []struct {
		key   string
		value time.Duration
	}{{"keep.processes", keep.Processes}, {"keep.runs", keep.Runs}, {"keep.logs", keep.Logs}} {
		k.require(age.value == 0 || age.value >= shortestKeep, age.key, "must be 0 (for ever) or at least %s, not %s", shortestKeep, age.value)
	}
}
