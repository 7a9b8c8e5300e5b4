package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

// clinic is a place in which all is well, until a test makes it ill.
type clinic struct {
	pg      *testenv.PG
	redis   *testenv.RedisServer
	environ []string
	conf    string // file
}

// newClinic has a source "a" with the stand-in crawler; more is added to the configuration.
func newClinic(t *testing.T, more string, redisArgs ...string) *clinic {
	t.Helper()
	c := &clinic{pg: migratedDatabase(t), redis: testenv.Redis(t, redisArgs...), conf: filepath.Join(t.TempDir(), "crawlkeeper.yaml")}
	c.environ = append(serversAt(c.redis.URL(), c.pg.URL()), "CRAWLKEEPER_CONFIG="+c.conf, "PATH="+os.Getenv("PATH"))
	c.pg.Exec(t, `INSERT INTO sources (code, collector, enabled, interval_seconds) VALUES ('a', 'news', true, 60)`)
	c.configure(t, fmt.Sprintf("adapters:\n  '*': {command: [%q]}\n%s", testenv.StandIn(t), more))
	return c
}

func (c *clinic) configure(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(c.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// report is what doctor --json says.
type report struct {
	OK       bool
	Errors   int
	Warnings int
	Findings []finding
}

func (c *clinic) examine(t *testing.T) report {
	t.Helper()
	got := call(t, c.environ, "doctor", "--json")
	var r report
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("%v\n%s\n%s", err, got.stdout, got.stderr)
	}
	if want := map[bool]int{true: exitDone, false: exitFailed}[r.OK]; got.status != want || r.OK != (r.Errors == 0) {
		t.Errorf("exit status %d with %d errors", got.status, r.Errors)
	}
	return r
}

// has tells whether a finding says all of these.
func (r report) has(level severity, check string, parts ...string) bool {
	for _, f := range r.Findings {
		all := f.Level == level && f.Check == check
		for _, part := range parts {
			all = all && strings.Contains(f.What+" → "+f.Do, part)
		}
		if all {
			return true
		}
	}
	return false
}

func (r report) String() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s → %s\n", f.Level, f.Check, f.What, f.Do)
	}
	return b.String()
}

func TestDoctorFindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	c := newClinic(t, "")
	r := c.examine(t)
	if r.Errors != 0 {
		t.Fatalf("it found\n%s", r)
	}
	for check, what := range map[string]string{
		"configuration": c.conf, "redis": `may do all`, "keys": "4 keys of 4", "manager": "no manager", "postgres": "everything that the manager does",
		"sources": "1 source can be crawled", "adapters": "standin for 1 source", "limits": "open files", "processes": "pidfd",
	} {
		if !r.has(levelFine, check, what) {
			t.Errorf("%s: %q is missing in\n%s", check, what, r)
		}
	}
	call(t, c.environ, "doctor").want(t, exitDone, "ok       sources        1 source can be crawled", "")
}

func TestDoctorFindsFaults(t *testing.T) {
	t.Parallel()
	const otherAdapter = "  bad: {command: [%s]%s}\n"
	for name, test := range map[string]struct {
		more  string // of the configuration
		redis []string
		spoil func(*testing.T, *clinic)
		level severity
		check string
		says  []string
	}{
		"status key of another type": {
			spoil: func(t *testing.T, c *clinic) { set(t, c, "crawler:status") },
			level: levelBad, check: "keys", says: []string{"crawler:status: this key holds a string, where there should be a hash", "redis-cli TYPE"},
		},
		"list of another type": {
			spoil: func(t *testing.T, c *clinic) { set(t, c, "crawler:a:start_urls") },
			level: levelBad, check: "keys", says: []string{"crawler:a:start_urls: this key holds a string, where there should be a list"},
		},
		"eviction": {
			redis: []string{"--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"},
			level: levelBad, check: "redis", says: []string{"maxmemory-policy is allkeys-lru", "noeviction"},
		},
		"eviction without a limit": {
			redis: []string{"--maxmemory-policy", "volatile-lru"},
			level: levelWarn, check: "redis", says: []string{"no effect"},
		},
		"connections": {
			redis: []string{"--maxclients", "100"},
			spoil: func(t *testing.T, c *clinic) {
				c.pg.Exec(t, `INSERT INTO sources (code, collector) SELECT 'x' || n, 'news' FROM generate_series(1, 99) n`)
			},
			level: levelBad, check: "redis", says: []string{"100 sources need about 220 connections, and maxclients is 100"},
		},
		"replica": {
			spoil: func(t *testing.T, c *clinic) {
				if err := c.redis.Client(t).ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
					t.Fatal(err)
				}
			},
			level: levelBad, check: "redis", says: []string{"is a replica"},
		},
		"no Redis": {
			spoil: func(t *testing.T, c *clinic) { c.redis.Stop(t) },
			level: levelBad, check: "redis", says: []string{"does not answer", "CRAWLKEEPER_REDIS_URL"},
		},
		"frozen Redis": {
			spoil: func(t *testing.T, c *clinic) { c.redis.Pause(t); t.Cleanup(func() { c.redis.Continue(t) }) },
			level: levelBad, check: "redis", says: []string{"does not answer"},
		},
		"renamed command": {
			redis: []string{"--rename-command", "HVALS", ""},
			level: levelBad, check: "redis", says: []string{"may not HVALS on crawler:status", "renamed"},
		},
		"no Postgres": {
			spoil: func(_ *testing.T, c *clinic) {
				c.environ = append(c.environ, "CRAWLKEEPER_POSTGRES_URL=postgres://nobody:sEcret@127.0.0.1:1/none")
			},
			level: levelBad, check: "postgres", says: []string{"does not answer", "CRAWLKEEPER_POSTGRES_URL"},
		},
		"not migrated": {
			spoil: func(t *testing.T, c *clinic) {
				c.environ = append(c.environ, "CRAWLKEEPER_POSTGRES_URL="+testenv.Postgres(t).URL())
			},
			level: levelBad, check: "postgres", says: []string{"the database is at migration 0 of ", "crawlkeeper migrate"},
		},
		"no tables": {
			spoil: func(t *testing.T, c *clinic) {
				c.environ = append(c.environ, "CRAWLKEEPER_POSTGRES_URL="+testenv.Postgres(t).URL())
			},
			level: levelBad, check: "postgres", says: []string{"not there are the shared tables crawl_logs, crawl_runs, sources", "crawlkeeper migrate"},
		},
		"missing column": {
			spoil: func(t *testing.T, c *clinic) { c.pg.Exec(t, "ALTER TABLE sources DROP backfill_hours") },
			level: levelBad, check: "postgres", says: []string{"lack sources.backfill_hours"},
		},
		"missing defaults": {
			spoil: func(t *testing.T, c *clinic) { c.pg.Exec(t, "ALTER TABLE crawl_logs ALTER created_at DROP DEFAULT") },
			level: levelWarn, check: "postgres", says: []string{"no default in the database: crawl_logs.created_at"},
		},
		"no log rows": {
			spoil: func(t *testing.T, c *clinic) { c.pg.Exec(t, "ALTER TABLE crawl_logs ALTER id DROP DEFAULT") },
			level: levelWarn, check: "postgres", says: []string{"no rows for crawl_logs: crawl_logs.id is of type bigint and has no default"},
		},
		"double codes": {
			spoil: func(t *testing.T, c *clinic) {
				c.pg.Exec(t, "ALTER TABLE sources DROP CONSTRAINT sources_pkey; INSERT INTO sources (code, collector, interval_seconds) VALUES ('a', 'news', 60)")
			},
			level: levelWarn, check: "postgres", says: []string{"only the first counts: a"},
		},
		"no sources": {
			spoil: func(t *testing.T, c *clinic) { c.pg.Exec(t, "DELETE FROM sources") },
			level: levelWarn, check: "sources", says: []string{`the collector "news" has no sources`},
		},
		"refused code": {
			spoil: func(t *testing.T, c *clinic) {
				c.pg.Exec(t, "INSERT INTO sources (code, collector, interval_seconds) VALUES ('-x', 'news', 60), ('-y', 'news', 60)")
			},
			level: levelBad, check: "sources", says: []string{`no crawler for -x, -y: a code does not begin with "-"`},
		},
		"bad schedule": {
			spoil: func(t *testing.T, c *clinic) {
				c.pg.Exec(t, "INSERT INTO crawl_source_options (code, schedule) VALUES ('a', '61 * * * *')")
			},
			level: levelBad, check: "sources", says: []string{"no ticks for a: cron line", "sources set"},
		},
		"no adapter": {
			spoil: func(t *testing.T, c *clinic) {
				c.configure(t, fmt.Sprintf("adapters: {rss: {command: [%q]}}", testenv.StandIn(t)))
			},
			level: levelBad, check: "sources", says: []string{`no crawler for a: there is no adapter "" in the configuration`},
		},
		"no url for scrapy-redis": {
			spoil: func(t *testing.T, c *clinic) {
				c.configure(t, fmt.Sprintf("adapters: {'*': {command: [%q], tick: scrapy-redis}}", testenv.StandIn(t)))
			},
			level: levelBad, check: "sources", says: []string{"no ticks for a: no url"},
		},
		"missing binary": {
			more:  fmt.Sprintf(otherAdapter, "no-such-crawler", ", env: {PATH: /nowhere}"),
			spoil: func(t *testing.T, c *clinic) { c.pg.Exec(t, "UPDATE sources SET adapter = 'bad'") },
			level: levelBad, check: "adapters", says: []string{`"bad" cannot start no-such-crawler`, `PATH="/nowhere"`, "adapters.bad"},
		},
		"missing binary that nobody needs": {
			more:  fmt.Sprintf(otherAdapter, "no-such-crawler", ""),
			level: levelWarn, check: "adapters", says: []string{`"bad" cannot start no-such-crawler`, "no source uses it"},
		},
		"missing directory": {
			more:  fmt.Sprintf(otherAdapter, "sh", ", dir: /no/such/place"),
			spoil: func(t *testing.T, c *clinic) { c.pg.Exec(t, "UPDATE sources SET adapter = 'bad'") },
			level: levelBad, check: "adapters", says: []string{"working directory /no/such/place"},
		},
		"missing hook": {
			more:  fmt.Sprintf(otherAdapter, "sh", ", hooks: {acquire: [{webhook: 'http://127.0.0.1:1/'}, {command: [no-such-hook]}]}"),
			spoil: func(t *testing.T, c *clinic) { c.pg.Exec(t, "UPDATE sources SET adapter = 'bad'") },
			level: levelBad, check: "adapters", says: []string{`"bad" cannot run what adapters.bad.hooks.acquire[1] names`, "no-such-hook"},
		},
		"missing program of a check": {
			more:  fmt.Sprintf(otherAdapter, "sh", ", health: [{type: command, command: [no-such-check]}]"),
			level: levelWarn, check: "adapters", says: []string{`"bad" cannot run what adapters.bad.health[0] names`, "no-such-check", "no source uses it"},
		},
		"missing program of an alert": {
			more:  "\nalerts: [{when: cooling, hooks: [{command: [no-such-alert]}]}]",
			level: levelBad, check: "adapters", says: []string{`"*" cannot run what alerts[0].hooks[0] names`, "no-such-alert"},
		},
		"missing variable": {
			more:  fmt.Sprintf(otherAdapter, "sh", ", env_inherit: [PATH, PROXY, 'X_*']"),
			level: levelWarn, check: "adapters", says: []string{`"bad" inherits PROXY, which is not set here`},
		},
		"log directory": {
			more:  fmt.Sprintf(otherAdapter, "sh", ", output: {to: file, dir: /proc/version/logs}"),
			spoil: func(t *testing.T, c *clinic) { c.pg.Exec(t, "UPDATE sources SET adapter = 'bad'") },
			level: levelBad, check: "adapters", says: []string{`"bad" cannot write its log files`},
		},
		"configuration": {
			spoil: func(t *testing.T, c *clinic) { c.configure(t, "manager: {colector: x}\nhttp: {listen: 5}") },
			level: levelBad, check: "configuration", says: []string{"crawlkeeper.yaml:1:11: ", "colector"},
		},
		"no configuration": {
			spoil: func(_ *testing.T, c *clinic) { c.environ = append(c.environ, "CRAWLKEEPER_CONFIG=/no/such/file") },
			level: levelBad, check: "configuration", says: []string{"/no/such/file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClinic(t, test.more, test.redis...)
			if test.spoil != nil {
				test.spoil(t, c)
			}
			r := c.examine(t)
			if !r.has(test.level, test.check, test.says...) {
				t.Errorf("it found\n%s", r)
			}
			if test.level == levelWarn && r.Errors > 0 {
				t.Errorf("there are errors among\n%s", r)
			}
			if strings.Contains(r.String(), "sEcret") {
				t.Errorf("a password is among\n%s", r)
			}
		})
	}
}

// What several adapters lack for the same reason is one finding, which names where it stands in the file.
func TestDoctorNamesAMissingHelperOnce(t *testing.T) {
	t.Parallel()
	const more = `  bad: {command: [sh]}
  far: {command: [sh], env: {PATH: /nowhere}}
  own: {command: [sh], hooks: {start: [{command: [no-such-own]}]}}
  twin: {command: [sh], hooks: {start: [{command: [no-such-shared]}]}}
defaults: {hooks: {start: [{command: [no-such-shared]}]}, health: [{type: command, command: [no-such-check]}]}
hooks: {final: [{command: [no-such-final]}]}
alerts: [{when: cooling, hooks: [{command: [no-such-alert]}]}, {when: leaks, hooks: [{command: [no-such-leak]}]}]
`
	c := newClinic(t, more)
	r := c.examine(t)
	for program, says := range map[string][]string{
		"no-such-shared": {`"*", "bad" cannot run what defaults.hooks.start[0] names`, `"far" cannot run what defaults.hooks.start[0] names`,
			`"twin" cannot run what adapters.twin.hooks.start[0] names`}, // the same, but written there
		"no-such-check": {`"*", "bad", "own", "twin" cannot run what defaults.health[0] names`, `"far" cannot run what defaults.health[0] names`},
		"no-such-final": {`"*", "bad", "own", "twin" cannot run what hooks.final[0] names`, `"far" cannot run what hooks.final[0] names`},
		"no-such-alert": {`"*", "bad", "own", "twin" cannot run what alerts[0].hooks[0] names`, `"far" cannot run what alerts[0].hooks[0] names`},
		"no-such-own":   {`"own" cannot run what adapters.own.hooks.start[0] names`},
		"no-such-leak":  {`the manager cannot run what alerts[1].hooks[0] names`},
	} {
		found := slices.DeleteFunc(slices.Clone(r.Findings), func(f finding) bool { return !strings.Contains(f.What, program) })
		if len(found) != len(says) {
			t.Errorf("%s: %d findings, want %d", program, len(found), len(says))
		}
		for i, text := range says {
			level := levelBad // the source "a" has the adapter "*"
			if i > 0 || program == "no-such-own" {
				level = levelWarn
			}
			if !r.has(level, "adapters", text) {
				t.Errorf("%s %q is missing in\n%s", level, text, r)
			}
		}
	}
}

func set(t *testing.T, c *clinic, key string) {
	t.Helper()
	if err := c.redis.Client(t).Set(t.Context(), key, "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// enoughRights are all that a user of Redis needs.
const enoughRights = "+ping +info +time +eval +evalsha +multi +discard +type +get +set +del +exists +hget +hmget +hset +hdel +hlen +hgetall +hkeys +hvals +pexpire +pttl +llen +lpush +publish +subscribe +unsubscribe"

func TestDoctorTestsTheRightsInRedis(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rights string
		level  severity
		says   []string
		more   string // of the configuration
	}{
		"no look for checks": {
			rights: "~crawler:* &crawler:* " + enoughRights, level: levelBad, says: []string{"may not LINDEX on crawler:a:start_urls"},
			more: "  checked: {command: [true], health: [{type: tick_taken, for: 1m}, {type: heartbeat, for: 1m}]}\n",
		},
		"enough for checks": {
			rights: "~crawler:* &crawler:* +lindex " + enoughRights, level: levelFine, says: []string{"may do all"},
			more: "  checked: {command: [true], health: [{type: tick_taken, for: 1m}, {type: heartbeat, for: 1m}]}\n",
		},
		"enough":     {rights: "~crawler:* &crawler:* " + enoughRights, level: levelFine, says: []string{`the user "of redis.url" may do all`}},
		"no command": {rights: "~crawler:* &crawler:* +@all -hset -eval", level: levelBad, says: []string{`the user "k" may not EVAL, HSET on crawler:status`, "ACL SETUSER k +eval +hset ~crawler:status"}},
		"no key":     {rights: "~other:* &* +@all", level: levelBad, says: []string{"on crawler:manager", "~crawler:manager"}},
		"no list":    {rights: "~crawler:status ~crawler:manager ~crawler:last_due &* +@all", level: levelBad, says: []string{"may not DEL, EVAL, EXISTS, LLEN, LPUSH on crawler:a:start_urls"}},
		"no channel": {rights: "~* &crawler:events +@all", level: levelBad, says: []string{"may not PUBLISH, SUBSCRIBE on crawler:control", "&crawler:control"}},
		"no multi":   {rights: "~* &* +@all -multi", level: levelWarn, says: []string{"the rights cannot be tested"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClinic(t, test.more)
			client := c.redis.Client(t)
			rights := append([]any{"acl", "setuser", "k", "on", ">sEcret", "resetchannels"}, anys(strings.Fields(test.rights))...)
			for _, command := range [][]any{
				rights, {"hset", "crawler:status", "a", `{"manager": "m"}`}, {"set", "crawler:manager", "{}"},
				{"hset", "crawler:last_due", "a", "1"}, {"rpush", "crawler:a:start_urls", "tick"}, {"set", "crawler:a:requests", "x"},
			} {
				if err := client.Do(t.Context(), command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			before := dump(t, c)
			c.environ = append(c.environ, "CRAWLKEEPER_REDIS_URL=redis://k:sEcret@"+c.redis.Addr())
			r := c.examine(t)
			if !r.has(test.level, "redis", test.says...) || strings.Contains(r.String(), "sEcret") {
				t.Errorf("it found\n%s", r)
			}
			if after := dump(t, c); after != before {
				t.Errorf("it changed Redis from\n%s to\n%s", before, after)
			}
		})
	}
}

func anys[T any](list []T) (out []any) {
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

// dump is everything in Redis, with the time to live.
func dump(t *testing.T, c *clinic) string {
	t.Helper()
	text, err := c.redis.Client(t).Eval(t.Context(), `
		local keys, out = redis.call('KEYS', '*'), {}
		table.sort(keys)
		for _, k in ipairs(keys) do out[#out + 1] = k .. redis.sha1hex(redis.call('DUMP', k)) .. redis.call('PTTL', k) end
		return table.concat(out, '\n')`, nil).Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDoctorTestsTheRightsInPostgres(t *testing.T) {
	t.Parallel()
	c := newClinic(t, "")
	role := fmt.Sprintf("doctor_%d", time.Now().UnixNano())
	c.pg.Exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'sEcret'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+role)
	t.Cleanup(func() { c.pg.Exec(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	url := c.pg.URL()
	url = "postgres://" + role + ":sEcret@" + url[strings.Index(url, "127.0.0.1"):]
	c.environ = append(c.environ, "CRAWLKEEPER_POSTGRES_URL="+url)
	r := c.examine(t)
	for _, says := range [][]string{
		{"UPDATE on crawl_runs is refused", "GRANT UPDATE ON crawl_runs TO "},
		{"INSERT on crawl_processes is refused", "GRANT INSERT ON crawl_processes TO "},
	} {
		if !r.has(levelBad, "postgres", says...) {
			t.Errorf("%q is missing in\n%s", says, r)
		}
	}
	if r.has(levelBad, "postgres", "DELETE on crawl_runs") || !r.has(levelBad, "postgres", "DELETE on crawl_processes", "GRANT DELETE") {
		t.Errorf("rows of processes have an age, those of runs have none\n%s", r)
	}
	if r.has(levelBad, "postgres", "SELECT on sources") || strings.Contains(r.String(), "sEcret") {
		t.Errorf("it found\n%s", r)
	}
}

func TestDoctorKnowsTheIndexThatRestNeeds(t *testing.T) {
	t.Parallel()
	c := newClinic(t, "  tired: {command: [true], max_failures: 3}\n")
	says := []string{"crawl_runs has no index", "CREATE INDEX CONCURRENTLY ON crawl_runs (source_code, started_at)"}
	if r := c.examine(t); !r.has(levelWarn, "postgres", says...) {
		t.Errorf("%q is missing in\n%s", says, r)
	}
	c.pg.Exec(t, "CREATE INDEX ON crawl_runs (source_code, started_at)")
	if r := c.examine(t); r.has(levelWarn, "postgres", says...) {
		t.Errorf("the index is there\n%s", r)
	}
}

func TestDoctorSeesAHandWrittenManager(t *testing.T) {
	t.Parallel()
	c := newClinic(t, "")
	client := c.redis.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	beat := func() error {
		if err := client.HSet(ctx, "crawler:status", "a", `{"state": "running", "pid": 1, "started_at": null, "next_run_at": null}`).Err(); err != nil {
			return err
		}
		return client.Expire(ctx, "crawler:status", 10*time.Second).Err()
	}
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		for ticker := time.Tick(100 * time.Millisecond); ctx.Err() == nil; <-ticker {
			_ = beat()
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	if r := c.examine(t); !r.has(levelBad, "manager", "a hand-written manager still runs") {
		t.Errorf("it found\n%s", r)
	}
}

// Errors first, whatever the order in which the checks end; one that hangs is left behind.
func TestChecksThatHangAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		found := runChecks(t.Context(), []check{
			{"well", func(context.Context) []finding { return []finding{fine("fine"), warn("hm", "")} }},
			{"hangs", func(context.Context) []finding { <-never; return nil }},
			{"obeys", func(ctx context.Context) []finding { <-ctx.Done(); return []finding{bad("late", "")} }},
		}, time.Second)
		close(never)
		var got []string
		for _, f := range found {
			got = append(got, fmt.Sprintf("%s %s: %s", f.Level, f.Check, f.What))
		}
		wantText(t, strings.Join(got, "\n")+"\n", "error hangs: this check did not end within 1s", "error obeys: late", "warning well: hm", "ok well: fine")
	})
}

func TestLimitFindings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		got   finding
		level severity
		says  string
	}{
		"files":            {fileFinding(100, 3, 500), levelFine, "about 500 open files of 500"},
		"too few files":    {fileFinding(101, 3, 500), levelBad, "101 sources need about 503 open files, and the hard limit is 500"},
		"endless files":    {fileFinding(5000, 4, unix.RLIM_INFINITY), levelFine, "of any number"},
		"tasks":            {taskFinding(10, []taskLimit{{180, "x"}, {500, "y"}}), levelFine, "about 180 processes and threads of 180"},
		"few tasks":        {taskFinding(10, []taskLimit{{500, "y"}, {179, "x"}}), levelWarn, "10 sources may need 180 processes and threads, and the limit is 179"},
		"too few tasks":    {taskFinding(100, []taskLimit{{199, "x"}}), levelBad, "100 sources need 200 processes at the very least, and the limit is 199"},
		"no limit":         {taskFinding(100, nil), levelFine, "of any number"},
		"locks":            {queueFinding([]process.Way{process.ByLocks, process.ByKin}, unix.RLIM_INFINITY, 819200), levelFine, "marked by RLIMIT_LOCKS"},
		"queues, narrow":   {queueFinding([]process.Way{process.ByMsgqueue, process.ByKin}, 100, 819200), levelWarn, "RLIMIT_LOCKS is limited to 100, so crawlers are marked by RLIMIT_MSGQUEUE instead, below its limit of 819200"},
		"queues":           {queueFinding([]process.Way{process.ByMsgqueue, process.ByKin}, 100, unix.RLIM_INFINITY), levelWarn, "marked by RLIMIT_MSGQUEUE instead: it no longer"},
		"no limit serves":  {queueFinding([]process.Way{process.ByKin}, 100, 0), levelWarn, "RLIMIT_LOCKS is limited to 100, and RLIMIT_MSGQUEUE, which is used then, to 0"},
		"docker":           {graceFinding(16*time.Second, inDocker), levelWarn, "a stop may take 16s (drain_timeout and the longest stop_timeout), and docker kills after 10s"},
		"docker, quick":    {graceFinding(9*time.Second, inDocker), levelFine, "9s at most"},
		"Kubernetes":       {graceFinding(16*time.Second, inKubernetes), levelFine, "16s at most"},
		"Kubernetes, slow": {graceFinding(time.Minute, inKubernetes), levelWarn, "Kubernetes kills after 30s"},
		"no container":     {graceFinding(time.Hour, ""), levelFine, "1h0m0s at most"},
		"proc":             {procFinding("/proc/self/stat"), levelFine, "all processes"},
		"no proc":          {procFinding("/proc/none/stat"), levelWarn, "hidepid"},
	} {
		if test.got.Level != test.level || !strings.Contains(test.got.What+test.got.Do, test.says) {
			t.Errorf("%s: got %+v", name, test.got)
		}
	}
}

func TestClockFinding(t *testing.T) {
	t.Parallel()
	before := time.Now()
	after := before.Add(100 * time.Millisecond)
	for _, test := range []struct {
		there time.Time
		level severity
		says  string
	}{
		{before.Add(50 * time.Millisecond), levelFine, "agree"},
		{after.Add(time.Second), levelFine, "agree"},
		{after.Add(1500 * time.Millisecond), levelWarn, "the clock of Redis is 1.5s ahead of ours"},
		{before.Add(-time.Minute), levelBad, "the clock of Redis is 1m0s behind ours"},
	} {
		if got := clockFinding("Redis", test.there, before, after); got.Level != test.level || !strings.Contains(got.What, test.says) {
			t.Errorf("got %+v, want %s %q", got, test.level, test.says)
		}
	}
}

func TestTaskLimitsOfCgroups(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, test := range map[string]struct {
		root fstest.MapFS
		want string
	}{
		"v2": {fstest.MapFS{
			"proc/self/cgroup":                    file("0::/system.slice/ck.service\n"),
			"sys/fs/cgroup/system.slice/pids.max": file("max\n"), "sys/fs/cgroup/system.slice/ck.service/pids.max": file("300\n"),
			"proc/sys/kernel/pid_max": file("4000\n"),
		}, "[300 4000]"},
		"v1 and hybrid": {fstest.MapFS{
			"proc/self/cgroup":            file("5:cpu,pids:/docker/x\n3:memory:/y\n0::/\nnonsense\n"),
			"sys/fs/cgroup/pids/pids.max": file("100\n"), "sys/fs/cgroup/pids/docker/pids.max": file("50\n"),
		}, "[50 100]"},
		"none": {fstest.MapFS{}, "[]"},
	} {
		numbers := []uint64{}
		for _, l := range taskLimits(test.root, true) {
			numbers = append(numbers, l.most)
		}
		if got := fmt.Sprint(numbers); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	text := "the quick brown fox jumps over it all"
	for columns, want := range map[int]string{0: text, 19: text, 20: "the quick brown fox|jumps over it all", 30: "the quick brown fox jumps over|it all"} {
		if got := strings.Join(wrap(text, columns), "|"); got != want {
			t.Errorf("%d columns: %s", columns, got)
		}
	}
}
