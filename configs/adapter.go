package configs

import (
	"path/filepath"
	"reflect"
	"strings"
	"time"
)

// The shapes of a tick, for [Adapter.Tick].
const (
	TickPlain       = "plain"
	TickBare        = "bare"
	TickScrapyRedis = "scrapy-redis"
)

// The values of [Adapter.OnStart]. Empty: OnStartTick for sources with an interval, OnStartWait for those with a cron line.
const (
	OnStartTick = "tick"
	OnStartWait = "wait"
)

// The values of [Adapter.Misfire].
const (
	MisfireOnce = "once"
	MisfireSkip = "skip"
)

// The values of [Manager.Disabled].
const (
	DisabledKeep = "keep"
	DisabledStop = "stop"
)

// The values of [Restart.Policy].
const (
	RestartAlways    = "always"
	RestartOnFailure = "on-failure"
	RestartNever     = "never"
)

// Adapter says how one kind of source is crawled.
type Adapter struct {
	// The crawler as a list of arguments, never run by a shell. {code} is replaced by the source's code, but not in the program's name.
	Command []string `yaml:"command"`
	// Shape of the ticks: plain, bare (only the old fields) or scrapy-redis (url and meta).
	Tick string `yaml:"tick" enum:"plain,bare,scrapy-redis"`
	// Where crawling begins for sources without a url in their payload, with tick scrapy-redis and for crawl-feed.
	URL string `yaml:"url"`
	// Whether the start of a crawler makes its source due at once. Empty: tick, and wait for sources with a cron line.
	OnStart string `yaml:"on_start" enum:",tick,wait"`
	// What becomes of due times that passed while no tick could go out, by more than a minute: one tick for all of them, or none.
	Misfire string `yaml:"misfire" enum:"once,skip"`
	// Working directory of the crawler, relative to the manager's.
	Dir string `yaml:"dir"`
	// Variables for the crawler's environment; they win over inherited ones.
	Env Env `yaml:"env"`
	// Names of the manager's variables that the crawler inherits. A name may end in *; "*" is all. The manager's secrets are never inherited.
	EnvInherit []string `yaml:"env_inherit"`
	// Pass CRAWLKEEPER_REDIS_URL and CRAWLKEEPER_POSTGRES_URL to the crawler.
	PassURLs bool `yaml:"pass_urls"`
	// How long a crawler may take to end after SIGTERM, before it and all that it started are killed.
	StopTimeout time.Duration `yaml:"stop_timeout"`
	// Signal that asks the crawler to end.
	StopSignal string `yaml:"stop_signal" enum:"SIGTERM,SIGINT,SIGQUIT,SIGHUP,SIGUSR1,SIGUSR2"`
	// Signal on which the crawler reads its own configuration again; it is sent at a reload of the manager. Empty: none.
	ReloadSignal string `yaml:"reload_signal" enum:",SIGHUP,SIGUSR1,SIGUSR2"`
	// Adapters whose crawlers are to be up before those of this one start, and to be stopped after them.
	After []string `yaml:"after"`
	// User to run the crawler as, a name or a number; only root can. Empty: the manager's.
	User string `yaml:"user"`
	// Group to run the crawler as, a name or a number. Empty: the user's.
	Group string `yaml:"group"`
	// Mode bits that new files of the crawler do not get, in octal, as in 022. Empty: as the manager has it.
	Umask string `yaml:"umask"`
	// Nice value of the crawler, from -20 to 19. 0: as the manager has it.
	Nice int `yaml:"nice" minimum:"-20"`
	// Resource limits of the crawler, by name: soft and hard, as in 1024:4096, one number for both, or unlimited.
	Rlimits map[string]string `yaml:"rlimits"`
	// What the crawler may use, with everything that it started.
	Limits Limits `yaml:"limits"`
	// Pauses between an end that nobody asked for and the next start.
	Backoff Backoff `yaml:"backoff"`
	// After so many runs in a row that failed, or that a crash interrupted, the source is paused by itself and then probed with one tick. 0: never.
	MaxFailures int `yaml:"max_failures"`
	// How long such a pause is.
	PauseFor PauseFor `yaml:"pause_for"`
	// Whether there is a next start at all.
	Restart Restart `yaml:"restart"`
	// What the crawler may register, with crawlkeeper track, to be given back at its end.
	Track Track `yaml:"track"`
	// What becomes of the crawler's standard output and standard error.
	Output Output `yaml:"output"`
	// Checks of crawlers that run, a list of mappings: what is looked at, how often, and what becomes of a crawler that is not well.
	Health []Check `yaml:"health"`
	// What runs at the points of its life, after the fleet's own, by the name of the point.
	Hooks Hooks `yaml:"hooks"`
}

// MostFailures is the highest [Adapter.MaxFailures]: so many runs are read to count them.
const MostFailures = 1000

// PauseFor is how long a source is paused by itself, with max_failures.
type PauseFor struct {
	// First pause; each further one in a row is twice as long.
	Min time.Duration `yaml:"min"`
	// Longest pause.
	Max time.Duration `yaml:"max"`
}

// Track says what a crawler may register to be removed at its end.
type Track struct {
	// Let it register files and directories in its TMPDIR and below the roots, and keys that begin with {prefix}{code}: of its source.
	Enabled bool `yaml:"enabled"`
	// Directories, absolute, below which it may register. {code} is replaced. Mounts below them are left alone.
	Roots []string `yaml:"roots"`
}

// Below returns the roots for one source, with {code} replaced.
func (t Track) Below(code string) []string {
	roots := make([]string, len(t.Roots))
	for i, root := range t.Roots {
		roots[i] = filepath.Clean(strings.ReplaceAll(root, "{code}", code))
	}
	return roots
}

// Backoff is the pause before a crawler that ended by itself is started again.
type Backoff struct {
	// First pause; each further one is twice as long.
	Min time.Duration `yaml:"min"`
	// Longest pause.
	Max time.Duration `yaml:"max"`
	// A crawler that was up this long goes back to the first pause.
	Stable time.Duration `yaml:"stable"`
	// Up to this part of the pause is added at random, from 0 to 1.
	Jitter float64 `yaml:"jitter"`
}

// Restart says whether a crawler that ended by itself is started again.
type Restart struct {
	// After every end, after all but an exit with status 0, or after none. A start that failed counts as a failure.
	Policy string `yaml:"policy" enum:"always,on-failure,never"`
	// Most restarts, up to 1000, before it stays stopped; 0 is no limit.
	Max int `yaml:"max"`
	// Time in which they count. 0: they count in a row, which a run of backoff.stable ends.
	Within time.Duration `yaml:"within"`
}

// Argv returns the command for one source, with {code} replaced.
func (a Adapter) Argv(code string) []string { return argvOf(a.Command, code) }

func argvOf(command []string, code string) []string {
	argv := make([]string, len(command))
	for i, arg := range command {
		argv[i] = strings.ReplaceAll(arg, "{code}", code)
	}
	return argv
}

// Equal reports whether both adapters crawl in the same way in every respect.
func (a Adapter) Equal(b Adapter) bool { return reflect.DeepEqual(a, b) }

// Inherit returns those entries of environ ("NAME=value") that a crawler of this adapter gets: what env_inherit lists, less the
// manager's secrets and less what the manager sets for crawlers itself.
func (a Adapter) Inherit(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if a.inherits(name) && !secretVariable(name) && !crawlerVariable(name) {
			kept = append(kept, entry)
		}
	}
	return kept
}

func (a Adapter) inherits(name string) bool {
	for _, pattern := range a.EnvInherit {
		if start, open := strings.CutSuffix(pattern, "*"); pattern == name || open && strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// Adapter returns how sources of the adapter of this name are crawled: its own settings, else those of "*". It reports false where
// there is neither.
func (c *Config) Adapter(name string) (Adapter, bool) {
	a, ok := c.Adapters[c.AdapterName(name)]
	return a, ok
}

// AdapterName returns which of the listed adapters serves sources of the adapter of this name: itself, else "*".
func (c *Config) AdapterName(name string) string {
	if _, listed := c.Adapters[name]; listed {
		return name
	}
	return "*"
}

// LongestStop returns the longest stop_timeout of all adapters.
func (c *Config) LongestStop() time.Duration {
	var longest time.Duration
	for _, a := range c.Adapters {
		longest = max(longest, a.StopTimeout)
	}
	return longest
}

// StopWithin returns how long the manager needs at most from SIGTERM to its end: draining, the longest stop_timeout and a second for
// the crawlers, and three more for what it says to servers, of which one may hang.
// Whoever stops it (docker, Kubernetes, systemd) must wait longer than this.
func (c *Config) StopWithin() time.Duration {
	return c.Manager.DrainTimeout + c.LongestStop() + 4*time.Second
}
