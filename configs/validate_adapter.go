package configs

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

func (k *checker) adapters(adapters map[string]Adapter) {
	k.require(len(adapters) > 0, "adapters", `must list at least one adapter; "*" serves all sources`)
	for _, name := range slices.Sorted(maps.Keys(adapters)) {
		key := joinKey("adapters", name)
		k.require(name != "" && printable(name), key, `must have a name of printable characters; "*" serves sources without an adapter`)
		k.adapter(adapters[name], key)
	}
	k.order(adapters)
}

func (k *checker) adapter(a Adapter, key string) {
	k.words(reflect.ValueOf(a), key)
	k.command(a.Command, key+".command")
	k.startURL(a.URL, key+".url")
	k.require(a.Dir != "" && !strings.Contains(a.Dir, "\x00"), key+".dir", "must not be empty; . is the manager's own")
	k.environment(a, key+".env")
	for i, name := range a.EnvInherit {
		plain := strings.TrimSuffix(name, "*")
		k.require(name != "" && !strings.ContainsAny(plain, "*=\x00"), fmt.Sprintf("%s.env_inherit[%d]", key, i),
			"must be the name of a variable, with * only at its end")
	}
	k.require(a.StopTimeout > 0, key+".stop_timeout", "must be longer than 0, not %s", a.StopTimeout)
	k.require(a.ReloadSignal == "" || a.ReloadSignal != a.StopSignal, k.either(key+".reload_signal", key+".stop_signal"),
		"is wrong: reload_signal and stop_signal must not both be %s", a.StopSignal)
	k.identity(a, key)
	k.limits(a, key+".limits")
	k.backoff(a.Backoff, key+".backoff")
	k.require(a.MaxFailures >= 0 && a.MaxFailures <= MostFailures, key+".max_failures", "must be from 0 (never) to %d, not %d", MostFailures, a.MaxFailures)
	k.pauseFor(a.PauseFor, key+".pause_for")
	k.restart(a, key+".restart")
	k.track(a.Track, key+".track")
	k.output(a.Output, key+".output")
	k.health(a, key+".health")
	k.hooks(a.Hooks, key+".hooks")
}

func (k *checker) command(command []string, key string) {
	if len(command) == 0 || command[0] == "" {
		k.require(false, key, `must name a program, as in [scrapy, crawl, "{code}"]`)
		return
	}
	k.require(!strings.Contains(command[0], "{code}"), key, "must not take the program's name from the source's code")
	for i, arg := range command {
		k.require(!strings.Contains(arg, "\x00"), fmt.Sprintf("%s[%d]", key, i), "must not hold a NUL byte")
	}
}

func (k *checker) startURL(text, key string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	k.require(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", key, "must be a URL that begins with http:// or https://")
}

func (k *checker) environment(a Adapter, key string) {
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		at := joinKey(key, name)
		k.require(name != "" && !strings.ContainsAny(name, "=\x00"), at, "must be the name of a variable, without =")
		k.require(!strings.Contains(a.Env[name], "\x00"), at, "must not hold a NUL byte")
		ours := name == "TMPDIR" || crawlerVariable(name) && (a.PassURLs || !secretVariable(name))
		k.require(!ours, at, "must not be set: the manager sets it for each crawler")
	}
}

// identity checks as whom, and within which limits of the system, the crawler runs.
func (k *checker) identity(a Adapter, key string) {
	for name, text := range map[string]string{"user": a.User, "group": a.Group} {
		k.require(!strings.ContainsAny(text, "\x00:\n"), key+"."+name, "must be a name or a number")
	}
	_, err := a.UmaskBits()
	k.require(err == nil, key+".umask", "must be three octal digits, as in 022, not %s", quote(a.Umask))
	k.require(a.Nice >= -20 && a.Nice <= 19, key+".nice", "must be from -20 to 19, not %d", a.Nice)
	for _, name := range slices.Sorted(maps.Keys(a.Rlimits)) {
		at := joinKey(key+".rlimits", name)
		k.require(slices.Contains(RlimitNames, name), at, "%s", notAllowed(name, RlimitNames))
		_, err := ParseRlimit(a.Rlimits[name])
		k.require(err == nil, at, "%v", err)
	}
}

func (k *checker) backoff(b Backoff, key string) {
	k.require(b.Min > 0, key+".min", "must be longer than 0, not %s", b.Min)
	k.require(b.Max >= b.Min, k.either(key+".max", key+".min"), "is wrong: max (%s) must not be shorter than min (%s)", b.Max, b.Min)
	k.require(b.Stable >= 0, key+".stable", "must not be negative")
	k.require(b.Jitter >= 0 && b.Jitter <= 1, key+".jitter", "must be from 0 to 1, not %v", b.Jitter)
}

func (k *checker) pauseFor(p PauseFor, key string) {
	k.require(p.Min > 0, key+".min", "must be longer than 0, not %s", p.Min)
	k.require(p.Max >= p.Min, k.either(key+".max", key+".min"), "is wrong: max (%s) must not be shorter than min (%s)", p.Max, p.Min)
}

// mostRestarts bounds what is remembered of each source.
const mostRestarts = 1000

func (k *checker) restart(a Adapter, key string) {
	r := a.Restart
	k.require(r.Max >= 0 && r.Max <= mostRestarts, key+".max", "must be from 0 (no limit) to %d, not %d", mostRestarts, r.Max)
	k.require(r.Within >= 0, key+".within", "must not be negative; 0 counts restarts in a row")
	k.require(r.Within <= 0 || r.Max != 0, key+".within", "needs a max above 0: it says within which time that many restarts count")
	k.require(r.Max <= 0 || r.Within != 0 || a.Backoff.Stable > 0, key+".max",
		"needs within, or a backoff.stable longer than 0: with neither every run ends the row, and none is ever too many")
}

func (k *checker) track(t Track, key string) {
	for i, root := range t.Roots {
		at := fmt.Sprintf("%s.roots[%d]", key, i)
		plain := filepath.IsAbs(root) && !strings.Contains(root, "\x00") && !slices.Contains(strings.Split(root, "/"), "..")
		k.require(plain && filepath.Clean(root) != "/", at, "must be an absolute directory other than /, without .. in it, not %s", quote(root))
	}
}

var outputPlaces = []string{OutputForward, OutputInherit, OutputFile, OutputDiscard}

func (k *checker) output(o Output, key string) {
	for i, place := range o.To {
		at := fmt.Sprintf("%s.to[%d]", key, i)
		k.require(slices.Contains(outputPlaces, place), at, "%s", notAllowed(place, outputPlaces))
		k.require(!slices.Contains(o.To[:i], place), at, "lists %s twice", quote(place))
		alone := place == OutputInherit || place == OutputDiscard
		k.require(!alone || len(o.To) == 1, at, "must stand alone: only forward and file go together")
	}
	k.require(len(o.To) > 0, key+".to", "must not be empty; discard throws the output away")
	k.require(o.Dir != "" || !slices.Contains(o.To, OutputFile), key+".dir", "must name the folder of the log files")
	k.require(o.MaxSize > 0, key+".max_size", "must be larger than 0, not %s", o.MaxSize)
	k.require(o.MaxAge >= 0, key+".max_age", "must not be negative; 0 is never")
	k.require(o.Keep >= 0, key+".keep", "must not be negative; 0 keeps none")
}
