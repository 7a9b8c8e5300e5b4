package configs

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{"redis: {url: ''}", "1:14: redis.url must be a URL such as redis://127.0.0.1:6379/0"},
		{"redis: {url: 'redis://u:pa/ss@h'}", "1:14: redis.url is no valid URL; in a password, characters such as / @ : # ? % must be percent-encoded"},
		{"redis: {url: redis://h/x}", "1:14: redis.url must end in the number of the database, as in /0"},
		{"redis: {url: 'unix://run/redis.sock'}", "1:14: redis.url needs the path of the socket, as in unix:///run/redis/redis.sock?db=0"},
		{"redis: {url: redis+sentinel://h/0}", "1:14: redis.url needs the name of the master, as in ?master=NAME"},
		{"redis: {prefix: 'x{code}'}", "1:17: redis.prefix must not hold {code} or {prefix}"},
		{"redis: {keys: {start_urls: '{prefix}x'}}", "1:28: redis.keys.start_urls must hold {code}, or all sources share one key"},
		{"redis: {keys: {heartbeat: '{prefix}x'}}", "1:27: redis.keys.heartbeat must hold {code}, or all sources share one key"},
		{"redis: {keys: {clean: ['q{code}', '{prefix}x']}}", "1:35: redis.keys.clean[1] must hold {code}, or all sources share one key"},
		{"redis: {keys: {status: '{code}:x'}}", "1:24: redis.keys.status must not hold {code}: there is one for all sources"},
		{"redis: {keys: {events: ''}}", "1:24: redis.keys.events must not be empty"},
		{"redis: {keys: {events: '{source}'}}", "1:24: redis.keys.events has the unknown placeholder {source}; there are {prefix} and {code}"},
		{"redis: {keys: {manager: '{prefix}status'}}", "1:25: redis.keys.manager may be the same name as redis.keys.status"},
		{"redis: {keys: {replies: 'crawler:control'}}", "1:25: redis.keys.replies may be the same name as redis.keys.control"},
		{"redis: {keys: {heartbeat: '{prefix}{code}:start_urls'}}", "1:27: redis.keys.heartbeat may be the same name as redis.keys.start_urls"},
		{"redis: {keys: {status: 'crawler:all:start_urls'}}", "1:24: redis.keys.status may be the same name as redis.keys.start_urls"},
		{"postgres: {url: 'host=h user=u'}", "1:17: postgres.url must be a URL such as postgres://user@127.0.0.1:5432/database"},
		{"postgres: {url: postgresql+asyncpg://h/d}", `1:17: postgres.url has the unknown scheme "postgresql+asyncpg"; write postgresql:// without a driver's name`},
		{"postgres: {url: mysql://h/d}", `1:17: postgres.url has the unknown scheme "mysql"; there are postgres and postgresql`},
		{`manager: {name: "a\nb"}`, "1:17: manager.name must not hold control characters"},
		{"manager: {collector: ''}", "1:22: manager.collector must not be empty"},
		{"manager: {start_rate: -1}", "1:23: manager.start_rate must not be negative; 0 is no limit"},
		{"manager: {start_rate: .nan}", `1:23: manager.start_rate must be a number, not ".nan"`},
		{"manager: {status_interval: 0}", "1:28: manager.status_interval must be at least 10ms, not 0s"},
		{"manager: {status_interval: 10s}", "1:28: manager.status_interval is wrong: status_ttl (10s) must be longer than status_interval (10s), or the status expires between two writes"},
		{"manager: {status_ttl: 2s}", "1:23: manager.status_ttl is wrong: status_ttl (2s) must be longer than status_interval (2s), or the status expires between two writes"},
		{"manager: {drain_timeout: -1s}", "1:26: manager.drain_timeout must not be negative"},
		{"manager: {drain_timeout: 2d}", "1:26: manager.drain_timeout must be in hours, minutes or seconds: 2d is 48h"},
		{"http: {listen: localhost}", `1:16: http.listen must be host:port with a port from 0 to 65535, as in 127.0.0.1:9870, not "localhost"`},
		{"http: {listen: ':65536'}", `1:16: http.listen must be host:port with a port from 0 to 65535, as in 127.0.0.1:9870, not ":65536"`},
		{"http: {pprof: yes}", `1:15: http.pprof must be true or false, not "yes"`},
		{"log: {level: warning}", `1:14: log.level must be debug, info, warn or error, not "warning"`},
		{"log: {format: Text}", `1:15: log.format must be auto, text or json, not "Text"; did you mean text?`},
		{"runs: {succeeded: [ok, '']}", "1:24: runs.succeeded[1] must not be empty"},
		{"runs: {succeeded: [running]}", "1:20: runs.succeeded[0] must not be running, which means something else"},
		{"runs: {failed: [success]}", `1:17: runs.failed[0] lists "success", which runs.succeeded lists too`},
		{"runs: {failed: [[]]}", "1:17: runs.failed[0] must be text, not a list"},
		{"runs: {interrupted_text: ' '}", "1:26: runs.interrupted_text must not be empty"},
		{"keep: {processes: 30d}", "1:19: keep.processes must be in hours, minutes or seconds: 30d is 720h"},
		{"keep: {runs: 59m}", "1:14: keep.runs must be 0 (for ever) or at least 1h0m0s, not 59m0s"},
		{"keep: {logs: -1h}", "1:14: keep.logs must be 0 (for ever) or at least 1h0m0s, not -1h0m0s"},
		{"adapters: {}", `1:1: adapters must list at least one adapter; "*" serves all sources`},
		{"adapters: {'': {command: [x]}}", `1:12: adapters."" must have a name of printable characters; "*" serves sources without an adapter`},
		{"adapters: {a: }", `1:12: adapters.a.command must name a program, as in [scrapy, crawl, "{code}"]`},
		{"adapters: {a: {command: []}}", `1:25: adapters.a.command must name a program, as in [scrapy, crawl, "{code}"]`},
		{"adapters: {a: {command: ['']}}", `1:25: adapters.a.command must name a program, as in [scrapy, crawl, "{code}"]`},
		{"adapters: {a: {command: ['{code}', x]}}", "1:25: adapters.a.command must not take the program's name from the source's code"},
		{`adapters: {a: {command: [x, "\0"]}}`, "1:29: adapters.a.command[1] must not hold a NUL byte"},
		{"adapters: {a: {command: [x], tick: scrapy}}", `1:36: adapters.a.tick must be plain, bare or scrapy-redis, not "scrapy"`},
		{"adapters: {a: {command: [x], on_start: now}}", `1:40: adapters.a.on_start must be empty (""), tick or wait, not "now"`},
		{"adapters: {a: {command: [x], url: example.org}}", "1:35: adapters.a.url must be a URL that begins with http:// or https://"},
		{"adapters: {a: {command: [x], dir: ''}}", "1:35: adapters.a.dir must not be empty; . is the manager's own"},
		{"adapters: {a: {command: [x], env: {'A=B': c}}}", "1:43: adapters.a.env.A=B must be the name of a variable, without ="},
		{"adapters: {a: {command: [x], env: {CRAWLKEEPER_SOURCE: c}}}", "1:56: adapters.a.env.CRAWLKEEPER_SOURCE must not be set: the manager sets it for each crawler"},
		{"adapters: {a: {command: [x], pass_urls: true, env: {CRAWLKEEPER_REDIS_URL: c}}}", "1:76: adapters.a.env.CRAWLKEEPER_REDIS_URL must not be set: the manager sets it for each crawler"},
		{"adapters: {a: {command: [x], env: {TMPDIR: c}}}", "1:44: adapters.a.env.TMPDIR must not be set: the manager sets it for each crawler"},
		{`adapters: {a: {command: [x], env: {A: "\0"}}}`, "1:39: adapters.a.env.A must not hold a NUL byte"},
		{"adapters: {a: {command: [x], env_inherit: ['*_PROXY']}}", "1:44: adapters.a.env_inherit[0] must be the name of a variable, with * only at its end"},
		{"adapters: {a: {command: [x], pass_urls: 1}}", `1:41: adapters.a.pass_urls must be true or false, not "1"`},
		{"adapters: {a: {command: [x], stop_timeout: 0s}}", "1:44: adapters.a.stop_timeout must be longer than 0, not 0s"},
		{"adapters: {a: {command: [x], reload_signal: SIGINT}}", `1:45: adapters.a.reload_signal must be empty (""), SIGHUP, SIGUSR1 or SIGUSR2, not "SIGINT"`},
		{"adapters: {a: {command: [x], stop_signal: SIGHUP, reload_signal: SIGHUP}}", "1:66: adapters.a.reload_signal is wrong: reload_signal and stop_signal must not both be SIGHUP"},
		{"adapters: {store: {command: [x]}, a: {command: [x], after: [stor]}}", `1:61: adapters.a.after[0] must be a or store, not "stor"; did you mean store?`},
		{"adapters: {a: {command: [x], after: [a]}}", "1:37: adapters.a.after is a circle, in which no crawler could start: after: a -> a"},
		{"adapters: {z: {command: [x], after: [b]}, b: {command: [x], after: [a]}, a: {command: [x], after: [c, b]}, c: {command: [x]}}", "1:99: adapters.a.after is a circle, in which no crawler could start: after: a -> b -> a"},
		{"{defaults: {command: [x], after: [a]}, adapters: {a: , b: }}", "1:34: defaults.after is a circle, in which no crawler could start: after: a -> a"},
		{"adapters: {a: {command: [x], backoff: {min: 0s}}}", "1:45: adapters.a.backoff.min must be longer than 0, not 0s"},
		{"adapters: {a: {command: [x], backoff: {max: 1s}}}", "1:45: adapters.a.backoff.max is wrong: max (1s) must not be shorter than min (5s)"},
		{"adapters: {a: {command: [x], backoff: {stable: -1s}}}", "1:48: adapters.a.backoff.stable must not be negative"},
		{"adapters: {a: {command: [x], backoff: {jitter: 1.01}}}", "1:48: adapters.a.backoff.jitter must be from 0 to 1, not 1.01"},
		{"adapters: {a: {command: [x], restart: {policy: onfailure}}}", `1:48: adapters.a.restart.policy must be always, on-failure or never, not "onfailure"; did you mean on-failure?`},
		{"adapters: {a: {command: [x], restart: never}}", "1:39: adapters.a.restart must be a mapping of keys to values, not a single value"},
		{"adapters: {a: {command: [x], restart: {max: -1}}}", "1:45: adapters.a.restart.max must be from 0 (no limit) to 1000, not -1"},
		{"adapters: {a: {command: [x], restart: {max: 1001}}}", "1:45: adapters.a.restart.max must be from 0 (no limit) to 1000, not 1001"},
		{"adapters: {a: {command: [x], restart: {max: 1, within: -1s}}}", "1:56: adapters.a.restart.within must not be negative; 0 counts restarts in a row"},
		{"adapters: {a: {command: [x], restart: {within: 1m}}}", "1:48: adapters.a.restart.within needs a max above 0: it says within which time that many restarts count"},
		{"adapters: {a: {command: [x], restart: {max: 1}, backoff: {stable: 0}}}", "1:45: adapters.a.restart.max needs within, or a backoff.stable longer than 0: with neither every run ends the row, and none is ever too many"},
		{"adapters: {a: {command: [x], output: []}}", "1:38: adapters.a.output.to must not be empty; discard throws the output away"},
		{"adapters: {a: {command: [x], output: files}}", `1:38: adapters.a.output.to[0] must be forward, inherit, file or discard, not "files"; did you mean file?`},
		{"adapters: {a: {command: [x], output: [forward, discard]}}", "1:48: adapters.a.output.to[1] must stand alone: only forward and file go together"},
		{"adapters: {a: {command: [x], output: [forward, forward]}}", `1:48: adapters.a.output.to[1] lists "forward" twice`},
		{"adapters: {a: {command: [x], output: file}}", "1:38: adapters.a.output.dir must name the folder of the log files"},
		{"adapters: {a: {command: [x], output: {max_size: 0}}}", "1:49: adapters.a.output.max_size must be larger than 0, not 0"},
		{"adapters: {a: {command: [x], output: {max_size: 10 Mb}}}", `1:49: adapters.a.output.max_size must be a size such as 10MiB, 512KiB or 1GB, not "10 Mb"`},
		{"adapters: {a: {command: [x], output: {max_age: -1s}}}", "1:48: adapters.a.output.max_age must not be negative; 0 is never"},
		{"adapters: {a: {command: [x], output: {keep: -1}}}", "1:45: adapters.a.output.keep must not be negative; 0 keeps none"},
		{"adapters: {a: {command: [x], output: {keep: 1.5}}}", `1:45: adapters.a.output.keep must be a whole number, not "1.5"`},
	} {
		if got := strings.TrimPrefix(parseError(tc.text), "f:"); got != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.text, got, tc.want)
		}
	}
}

func TestRulesThatHoldAtTheirEdge(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis: {url: 'unix:///run/redis.sock?db=1'}",
		"redis: {url: 'rediss://u:p%2Fw@h:6380/2'}",
		"redis: {url: 'redis+sentinel://:p@a:1,b:2/1?master=m'}",
		"redis: {prefix: ''}",
		"redis: {prefix: '{tag}:'}", // a hash tag of Redis Cluster
		"redis: {keys: {clean: []}}",
		"redis: {keys: {clean: ['{prefix}{code}:requests', '{prefix}{code}:dupefilter', '{prefix}{code}:start_urls']}}",
		"redis: {keys: {control: 'crawler:status'}}", // a channel beside a key
		"postgres: {url: 'postgresql://a:1,b:2/d?target_session_attrs=primary'}",
		"manager: {status_interval: 10ms, status_ttl: 11ms, drain_timeout: 0, start_rate: 0.5}",
		"http: {listen: ''}", "http: {listen: ':0'}", "http: {listen: '[::1]:65535'}",
		"runs: {succeeded: [], failed: []}",
		"keep: {processes: 0, runs: 1h, logs: 87600h}",
		"adapters: {a: {command: [x], backoff: {min: 1ns, max: 1ns, stable: 0s, jitter: 1}}}",
		"adapters: {a: {command: [x], restart: {max: 1000}}}",
		"adapters: {a: {command: [x], restart: {policy: never, max: 1, within: 1ns}, backoff: {stable: 0}}}",
		"adapters: {a: {command: [sh, -c, 'echo {code} {x}'], env: {A: ''}, on_start: wait, url: 'https://h/x'}}",
		"adapters: {a: {command: [x], env: {CRAWLKEEPER_REDIS_URL: redis://other}}}", // another user's, without pass_urls
		"adapters: {a: {command: [x], after: [b, c]}, b: {command: [x], after: [c, '*']}, c: {command: [x]}, '*': {command: [x]}}",
		"adapters: {a: {command: [x], stop_signal: SIGHUP, reload_signal: SIGUSR1}}",
		"adapters: {1: {command: [x, 1, true, 1.5, 2020-01-01]}}",
		"adapters: {a: {command: [x], output: {max_age: 0, keep: 0, max_size: '1'}}}",
	} {
		if err := parseError(text); err != "" {
			t.Errorf("%s\n%s", text, err)
		}
	}
}

// Flags change a loaded configuration; what they break is found without a place in the file that is no longer to blame.
func TestValidateAgain(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "")
	c.Log.Level = "loud"
	if err := c.Validate(); err == nil || err.Error() != `log.level must be debug, info, warn or error, not "loud"` {
		t.Errorf("error %v", err)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	keys := []string{"url", "url_file", "prefix", "keys", "stop_timeout"}
	for name, want := range map[string]string{
		"ulr": "url", "Url": "url", "urlFile": "url_file", "prefxi": "prefix", "stoptimeout": "stop_timeout", "stop-timout": "stop_timeout",
		"": "", "x": "", "command": "", strings.Repeat("k", 200): "",
	} {
		if got := nearest(name, keys); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}
