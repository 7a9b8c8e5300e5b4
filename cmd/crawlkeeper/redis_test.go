package main

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
)

func TestOpenRedis(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url, network, address string
		db                    int
		tls                   bool
	}{
		{"redis://:secret@localhost:6380/3", "tcp", "localhost:6380", 3, false},
		{"rediss://localhost/1", "tcp", "localhost:6379", 1, true},
		{"unix:///run/redis.sock?db=2", "unix", "/run/redis.sock", 2, false},
		{"redis+sentinel://:secret@a:26379,b:26379/4?master=m", "", "FailoverClient", 4, false},
		{"rediss+sentinel://a/0?master=m", "", "FailoverClient", 0, true},
	} {
		opened, err := openRedis(configs.Redis{URL: configs.Secret(test.url)})
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		client, ok := opened.(*redis.Client)
		if !ok {
			t.Fatalf("%s: %T", test.url, opened)
		}
		o := client.Options()
		if test.network != "" && o.Network != test.network || o.Addr != test.address || o.DB != test.db || (o.TLSConfig != nil) != test.tls {
			t.Errorf("%s: %s %s, database %d, TLS %v", test.url, o.Network, o.Addr, o.DB, o.TLSConfig != nil)
		}
		if o.MaxRetries > 0 || !o.ContextTimeoutEnabled {
			t.Errorf("%s: %d retries, contexts %v", test.url, o.MaxRetries, o.ContextTimeoutEnabled)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRedisHidesThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://:secret@host:x/0", "redis://:secret@host/words", "http://u:secret@host", "redis+sentinel://u:secret@host/0"} {
		_, err := openRedis(configs.Redis{URL: configs.Secret(url)})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
