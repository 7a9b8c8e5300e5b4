package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
)

// DoctorCmd looks for everything that can be seen to be wrong before a manager stumbles over it.
type DoctorCmd struct{ jsonFlag }

// severity of a finding; the order is that of the report.
type severity string

const (
	levelBad  severity = "error"   // the manager cannot do its work, or not all of it
	levelWarn severity = "warning" // it can, but somebody should know
	levelFine severity = "ok"
)

// finding is one thing that was looked at.
type finding struct {
	Level severity `json:"level"`
	Check string   `json:"check"` // what was looked at
	What  string   `json:"what"`
	Do    string   `json:"do,omitempty"` // what to do about it
}

func bad(what, do string) finding  { return finding{Level: levelBad, What: what, Do: do} }
func warn(what, do string) finding { return finding{Level: levelWarn, What: what, Do: do} }
func fine(format string, args ...any) finding {
	return finding{Level: levelFine, What: fmt.Sprintf(format, args...)}
}

// doctor is what the checks share. They run at the same time and change nothing in it.
type doctor struct {
	conf      *configs.Config
	client    redis.UniversalClient
	redisAway error // why Redis does not answer
	store     *sql.Store
	environ   []string
	sources   []sql.Source // nil where they could not be read
	count     int          // of sources, for what grows with it
}

// check is one area that is looked at.
type check struct {
	name string
	run  func(context.Context) []finding
}

const (
	// checkLimit is when a check is told to end, checkGrace how long it may take for that.
	checkLimit = 10 * time.Second
	checkGrace = 2 * time.Second
)

// Run writes what was found, the errors first, and fails where there is one.
func (c *DoctorCmd) Run(ctx context.Context, a *app) error {
	findings := a.examine(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("look around: %w", err)
	}
	show := a.showFindings
	if c.JSON {
		show = a.showFindingsJSON
	}
	if err := show(findings); err != nil {
		return err
	}
	if countLevel(findings, levelBad) > 0 {
		return toldError(exitFailed)
	}
	return nil
}

// examine runs all checks that can be run.
func (a *app) examine(ctx context.Context) []finding {
	conf, err := a.Config()
	if err != nil {
		return runChecks(ctx, []check{
			{"configuration", func(context.Context) []finding { return configFaults(err) }},
			{"processes", processFindings},
		}, checkLimit)
	}
	d := &doctor{conf: conf, environ: a.Environ}
	checks := []check{{"configuration", func(context.Context) []finding { return a.configFindings(conf) }}}
	if d.client, err = a.OpenRedis(); err != nil {
		checks = append(checks, failed("redis", err, "correct redis.url"))
	} else {
		checks = append(checks, check{"redis", d.redis})
		if d.reachRedis(ctx); d.redisAway == nil {
			checks = append(checks, check{"keys", d.keys}, check{"manager", d.manager})
		}
	}
	if d.store, err = a.OpenStore(ctx); err != nil {
		checks = append(checks, failed("postgres", err, "correct postgres.url"))
	} else {
		d.readSources(ctx)
		checks = append(checks, check{"postgres", d.postgres}, check{"sources", d.sourceFindings})
	}
	checks = append(checks, check{"adapters", d.adapters}, check{"limits", d.limits}, check{"quotas", d.quotas}, check{"processes", processFindings}, check{"stopping", d.stopping})
	return runChecks(ctx, checks, checkLimit)
}

func failed(name string, err error, do string) check {
	return check{name, func(context.Context) []finding { return []finding{bad(err.Error(), do)} }}
}

func (d *doctor) reachRedis(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	d.redisAway = d.client.Ping(ctx).Err()
}

// readSources reads the sources that other checks need; why it could not is found by the check of Postgres.
func (d *doctor) readSources(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	sources, err := d.store.Sources(ctx, d.conf.Manager.Collector)
	if err == nil {
		d.sources = append([]sql.Source{}, sources...)
	}
	d.count = len(sources)
}

// runChecks runs checks at the same time, each within the limit, and returns the findings: errors, warnings, then the rest, each in
// the order of the checks.
func runChecks(ctx context.Context, checks []check, limit time.Duration) []finding {
	results := make([]chan []finding, len(checks))
	for i, c := range checks {
		results[i] = make(chan []finding, 1)
		go func() { results[i] <- c.within(ctx, limit) }()
	}
	var findings []finding
	for i, c := range checks {
		for _, f := range <-results[i] {
			f.Check = c.name
			f.What = strings.Join(strings.FieldsFunc(f.What, func(r rune) bool { return r == '\n' || r == '\t' }), " ")
			findings = append(findings, f)
		}
	}
	rank := map[severity]int{levelBad: 0, levelWarn: 1, levelFine: 2}
	slices.SortStableFunc(findings, func(a, b finding) int { return rank[a.Level] - rank[b.Level] })
	return findings
}

// within runs a check. One that does not even end when it is told to is left behind and reported.
func (c check) within(ctx context.Context, limit time.Duration) []finding {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan []finding, 1)
	go func() { done <- c.run(ctx) }()
	select {
	case found := <-done:
		return found
	case <-time.After(limit + checkGrace):
	}
	return []finding{bad(fmt.Sprintf("this check did not end within %v", limit), "something hangs: a server, or a file system that is away (see mount)")}
}

// configFaults are what is wrong with the configuration.
func configFaults(err error) []finding {
	const do = "correct it; configs/crawlkeeper.yaml explains every key"
	faults, ok := errors.AsType[*configs.Error](err)
	if !ok {
		return []finding{bad(err.Error(), "do what it says, or name another file with --config or CRAWLKEEPER_CONFIG")}
	}
	var findings []finding
	for line := range strings.Lines(faults.Error()) {
		findings = append(findings, bad(strings.TrimSpace(line), do))
	}
	return findings
}

func (a *app) configFindings(c *configs.Config) []finding {
	file := a.flags.Config
	if file == "" {
		file = a.getenv("CRAWLKEEPER_CONFIG")
	}
	if file == "" {
		file = "no file, built-in values"
	}
	return []finding{fine("%s; adapters %s; collector %q, prefix %q", file, strings.Join(sortedKeys(c.Adapters), ", "), c.Manager.Collector, c.Redis.Prefix)}
}
