package configs

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var ignorePlaces = cmpopts.IgnoreUnexported(Config{})

func TestNothingGivenIsTheDefault(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Manager.Name = host
	for _, text := range []string{"", "# only a comment\n", "redis:\nadapters:\n", "---\n", "manager: {name: ''}"} {
		got := mustParse(t, text)
		if diff := cmp.Diff(want, got, ignorePlaces); diff != "" {
			t.Errorf("%q is not the default (-want +got):\n%s", text, diff)
		}
	}
	got, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, ignorePlaces); diff != "" {
		t.Errorf("no file is not the default (-want +got):\n%s", diff)
	}
	if err := Default().Validate(); err != nil {
		t.Errorf("the default breaks a rule: %v", err)
	}
}

// What the contract lists as the meaning of an empty configuration.
func TestDefaultIsTheContract(t *testing.T) {
	t.Parallel()
	listed := mustParse(t, `
redis:
  url: redis://127.0.0.1:6379/0
  prefix: "crawler:"
  keys: {start_urls: "{prefix}{code}:start_urls", clean: ["{prefix}{code}:requests"], status: "{prefix}status", control: "{prefix}control"}
postgres:
  url: postgres://crawler@127.0.0.1/crawler
manager:
  name: ""
  collector: news
  disabled: keep
  start_rate: 0
  status_interval: 2s
  status_ttl: 10s
  drain_timeout: 0s
http:
  listen: 127.0.0.1:9870
log: {level: info, format: auto}
runs: {succeeded: [succeeded, success], failed: [failed, error], interrupted_text: "crawler ended before this run was finished"}
adapters:
  "*":
    command: [scrapy, crawl, "{code}"]
    tick: plain
    dir: .
    env: {}
    stop_timeout: 15s
    backoff: {min: 5s, max: 300s, stable: 60s, jitter: 0.1}
  rss:
    command: [scrapy, crawl, custom_rss, -a, "source_code={code}"]
`)
	if diff := cmp.Diff(mustParse(t, ""), listed, ignorePlaces); diff != "" {
		t.Errorf("the default is not what the contract lists (-default +listed):\n%s", diff)
	}
}

func TestAdapterLayers(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
adapters:
  own:
    command: [own, "{code}"]
    env: {B: own, C: own, N: 7, E: }
    env_inherit: []
    backoff: {max: 20s}
    output: file
    dir:
  shared:
defaults:
  command: [shared]
  dir: /shared
  env: {A: shared, B: shared}
  env_inherit: [PATH, "LC_*"]
  stop_timeout: 1m
  backoff: {min: 2s, jitter: 0}
  output: {to: [forward, file], dir: /logs, max_size: 512KiB, keep: 0, compress: false}
`)
	want := defaultAdapter()
	want.Command = []string{"shared"}
	want.Dir = "/shared"
	want.Env = Env{"A": "shared", "B": "shared"}
	want.EnvInherit = []string{"PATH", "LC_*"}
	want.StopTimeout = time.Minute
	want.Backoff = Backoff{Min: 2 * time.Second, Max: 300 * time.Second, Stable: time.Minute}
	want.Output = Output{To: Targets{"forward", "file"}, Dir: "/logs", MaxSize: 512 << 10, MaxAge: 168 * time.Hour}
	if got := c.Adapters["shared"]; !got.Equal(want) {
		t.Errorf("an adapter without keys of its own (-want +got):\n%s", cmp.Diff(want, got))
	}
	want.Command = []string{"own", "{code}"}
	want.Env = Env{"A": "shared", "B": "own", "C": "own", "N": "7", "E": ""}
	want.EnvInherit = []string{}
	want.Backoff.Max = 20 * time.Second
	want.Output.To = Targets{"file"}
	if got := c.Adapters["own"]; !got.Equal(want) {
		t.Errorf("an adapter with keys of its own (-want +got):\n%s", cmp.Diff(want, got))
	}
	if len(c.Adapters) != 2 {
		t.Errorf("listed adapters come with %d others", len(c.Adapters)-2)
	}
}

func TestDefaultsReachTheBuiltinAdapters(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "defaults: {stop_timeout: 40s}")
	for name, a := range c.Adapters {
		if a.StopTimeout != 40*time.Second || len(a.Command) == 0 {
			t.Errorf("adapter %s: %+v", name, a)
		}
	}
	if c.LongestStop() != 40*time.Second || c.StopWithin() != 44*time.Second {
		t.Errorf("longest stop %s, within %s", c.LongestStop(), c.StopWithin())
	}
}

func TestOutputForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Targets{
		"forward":                        {"forward"},
		"discard":                        {"discard"},
		"[forward, file]":                {"forward", "file"},
		"{to: inherit}":                  {"inherit"},
		"{to: [file, forward], keep: 1}": {"file", "forward"},
	} {
		c := mustParse(t, "defaults: {output: {dir: logs}}\nadapters: {a: {command: [x], output: "+text+"}}")
		if got := c.Adapters["a"].Output; !cmp.Equal(got.To, want) || got.Dir != "logs" {
			t.Errorf("output: %s gives %+v", text, got)
		}
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "manager: {status_interval: &i 3s, drain_timeout: *i}\nadapters: {a: &a {command: [x]}, b: *a}")
	if c.Manager.DrainTimeout != 3*time.Second || !c.Adapters["a"].Equal(c.Adapters["b"]) {
		t.Errorf("aliases give %s and %+v", c.Manager.DrainTimeout, c.Adapters)
	}
}

func TestEnvironmentWins(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "redis: {url: redis://file/0, prefix: 'f:'}\nhttp: {listen: 127.0.0.1:1}",
		"CRAWLKEEPER_REDIS_URL=redis://env:6379/1",
		"CRAWLKEEPER_REDIS_KEYS_STATUS={prefix}state",
		"CRAWLKEEPER_POSTGRES_URL=postgres://env/db",
		"CRAWLKEEPER_MANAGER_START_RATE=2.5",
		"CRAWLKEEPER_MANAGER_STATUS_TTL=1m",
		"CRAWLKEEPER_HTTP_PPROF=true",
		"CRAWLKEEPER_HTTP_LISTEN=0.0.0.0:9870",
		"CRAWLKEEPER_LOG_LEVEL=debug",
		"CRAWLKEEPER_RUNS_INTERRUPTED_TEXT=gone",
		"CRAWLKEEPER_REDIS_PREFIX=",
		"CRAWLKEEPER_SOURCE=x", "CRAWLKEEPER_PROCESS_ID=x", "CRAWLKEEPER_START_URLS_KEY=x", // of a manager above us
		"CRAWLKEEPER_CONFIG=x", "CRAWLKEEPER_REDISURL=x", // of no section
		"CRAWLKEEPER_REDIS_SERVICE_HOST=10.0.0.1", "CRAWLKEEPER_REDIS_PORT=tcp://10.0.0.1:6379", "CRAWLKEEPER_REDIS_PORT_6379_TCP_ADDR=10.0.0.1",
		"REDIS_URL=x", "NOTHING",
	)
	got := []any{
		c.Redis.URL.Reveal(), c.Redis.Prefix, c.Redis.Status(), c.Postgres.URL.Reveal(), c.Manager.StartRate, c.Manager.StatusTTL,
		c.HTTP.Pprof, c.HTTP.Listen, c.Log.Level, c.Runs.InterruptedText,
	}
	want := []any{
		"redis://env:6379/1", "f:", "f:state", "postgres://env/db", 2.5, time.Minute,
		true, "0.0.0.0:9870", "debug", "gone",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnvironmentErrors(t *testing.T) {
	t.Parallel()
	got := parseError("",
		"CRAWLKEEPER_REDIS_ULR=redis://:hunter2@h",
		"CRAWLKEEPER_MANAGER_WHATEVER=1",
		"CRAWLKEEPER_REDIS_KEYS_CLEAN=a",
		"CRAWLKEEPER_MANAGER_START_RATE=fast",
		"CRAWLKEEPER_LOG_LEVEL=loud",
		"CRAWLKEEPER_DEFAULTS_TICK=bare",
	)
	want := strings.Join([]string{
		"CRAWLKEEPER_DEFAULTS_TICK: is no known variable; a variable is named after its key, as CRAWLKEEPER_REDIS_URL after redis.url",
		`CRAWLKEEPER_LOG_LEVEL: log.level must be debug, info, warn or error, not "loud"`,
		`CRAWLKEEPER_MANAGER_START_RATE: manager.start_rate must be a number, not "fast"`,
		"CRAWLKEEPER_MANAGER_WHATEVER: is no known variable; a variable is named after its key, as CRAWLKEEPER_REDIS_URL after redis.url",
		"CRAWLKEEPER_REDIS_KEYS_CLEAN: is a list; set redis.keys.clean in the file",
		"CRAWLKEEPER_REDIS_ULR: is no known variable; did you mean CRAWLKEEPER_REDIS_URL?",
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestURLFiles(t *testing.T) {
	t.Parallel()
	const secret = "redis://:hunter2@host:6379/3"
	path := writeText(t, secret+"\r\n")
	empty := writeText(t, "\n")
	variable := "CRAWLKEEPER_REDIS_URL_FILE=" + path
	for _, tc := range []struct {
		name, text string
		environ    []string
		want, err  string
	}{
		{name: "in the file", text: "redis: {url_file: " + path + "}", want: secret},
		{name: "in a variable", environ: []string{variable}, want: secret},
		{name: "in a variable over a url in the file", text: "redis: {url: redis://a}", environ: []string{variable}, want: secret},
		{name: "a url in a variable over it", text: "redis: {url_file: /nowhere}", environ: []string{"CRAWLKEEPER_REDIS_URL=redis://b"}, want: "redis://b"},
		{name: "both in the file", text: "redis:\n  url: redis://a\n  url_file: " + path, err: "f:3:13: redis.url_file stands beside redis.url; one of the two must go"},
		{name: "both in variables", environ: []string{variable, "CRAWLKEEPER_REDIS_URL=redis://b"}, err: "CRAWLKEEPER_REDIS_URL_FILE: redis.url_file stands beside redis.url; one of the two must go"},
		{name: "empty", text: "redis: {url_file: " + empty + "}", err: "f:1:19: redis.url_file names an empty file"},
		{name: "missing", text: "redis: {url_file: /nowhere}", err: "f:1:19: redis.url_file cannot be read: stat /nowhere: no such file or directory"},
		{name: "a folder", text: "redis: {url_file: /}", err: "f:1:19: redis.url_file cannot be read: / is no regular file"},
		{name: "no URL of Redis", text: "postgres: {url_file: " + path + "}", err: `f:1:22: postgres.url has the unknown scheme "redis"; there are postgres and postgresql`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := parse("f", []byte(tc.text), tc.environ)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || c.Redis.URL.Reveal() != tc.want {
				t.Errorf("url %q, error %v", c.Redis.URL.Reveal(), err)
			}
			if err := c.Validate(); err != nil {
				t.Errorf("a second look finds: %v", err)
			}
		})
	}
}

func TestLoadFile(t *testing.T) {
	t.Parallel()
	c, err := Load(writeText(t, "manager: {name: one}"), nil)
	if err != nil || c.Manager.Name != "one" {
		t.Fatalf("%+v, %v", c, err)
	}
	for path, want := range map[string]string{
		"/nowhere.yaml": "read configuration: stat /nowhere.yaml: no such file or directory",
		"/dev/zero":     "read configuration: /dev/zero is no regular file",
		writeText(t, strings.Repeat("#", maxFile+1)): "bytes",
	} {
		if _, err := Load(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
