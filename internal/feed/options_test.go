package feed

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFromEnv(t *testing.T) {
	t.Parallel()
	got := FromEnv([]string{
		"PATH=/bin", "CRAWLKEEPER_SOURCE=a", "CRAWLKEEPER_REDIS_URL=redis://r/1?x=y", "CRAWLKEEPER_POSTGRES_URL=postgres://p",
		"CRAWLKEEPER_START_URLS_KEY=k:a:start_urls", "CRAWLKEEPER_PROCESS_ID=id",
	})
	want := Options{Source: "a", RedisURL: "redis://r/1?x=y", PostgresURL: "postgres://p", StartURLsKey: "k:a:start_urls", ProcessID: "id"}
	if got != want {
		t.Errorf("got %+v", got)
	}
}

func TestDefaultKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ startURLs, heartbeat, wantStartURLs, wantHeartbeat string }{
		{"", "", "crawler:a:start_urls", "crawler:a:heartbeat"},
		{"x:a:start_urls", "", "x:a:start_urls", "x:a:heartbeat"},
		{"ticks-of-a", "", "ticks-of-a", ""},
		{"ticks-of-a", "beat", "ticks-of-a", "beat"},
	} {
		o := Options{Source: "a", StartURLsKey: test.startURLs, HeartbeatKey: test.heartbeat}.withDefaults()
		if o.StartURLsKey != test.wantStartURLs || o.HeartbeatKey != test.wantHeartbeat {
			t.Errorf("%+v: got %q and %q", test, o.StartURLsKey, o.HeartbeatKey)
		}
	}
}

func TestValidateSaysAllAndNoSecret(t *testing.T) {
	t.Parallel()
	err := Options{}.Validate()
	for _, want := range []string{"no source", "no Redis", "no Postgres"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	err = Options{
		Source: "a", URL: "ftp://x", RedisURL: "redis://u:hidden@h:port/x", PostgresURL: "postgres://u:hidden@h:port/x",
	}.Validate()
	if !errors.Is(err, ErrOptions) || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "port") {
		t.Errorf("got %v", err)
	}
	if err := Run(t.Context(), Options{}); !errors.Is(err, ErrOptions) {
		t.Errorf("Run: %v", err)
	}
}

func TestRedisURLs(t *testing.T) {
	t.Parallel()
	for raw, good := range map[string]bool{
		"redis://h:1/2": true, "rediss://u:p@h": true, "unix:///run/redis.sock?db=1": true,
		"redis+sentinel://u:p%40@h:1,g:2/3?master=m": true, "rediss+sentinel://h:1?master=m": true,
		"http://h": false, "redis+sentinel://h:1": false, "redis+sentinel://?master=m": false, "redis+sentinel://h/x?master=m": false,
	} {
		open, err := redisOptions(raw)
		if (err == nil) != good {
			t.Errorf("%s: %v", raw, err)
		}
		if err == nil {
			_ = open().Close()
		}
	}
	o, err := sentinelOptions("redis+sentinel://u:p%40@h:1,g:2/3?master=m")
	if err != nil {
		t.Fatal(err)
	}
	if o.MasterName != "m" || o.DB != 3 || o.Username != "u" || o.Password != "p@" || len(o.SentinelAddrs) != 2 {
		t.Errorf("got %+v", o)
	}
}

func TestDelayDoublesToItsMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d delay
		for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			began := time.Now()
			if !d.wait(t.Context()) {
				t.Fatal("ended")
			}
			if got := time.Since(began); got != want*time.Millisecond {
				t.Errorf("waited %v, want %v", got, want*time.Millisecond)
			}
		}
	})
}
