package testenv

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv/servers"
)

// RedisServer is a private Redis server of one test.
type RedisServer struct {
	server *servers.Redis
}

// Redis starts an empty Redis server for this test; args are further options of redis-server. It ends with the test.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	server, err := environment(t).StartRedis(t.Context(), args...)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { control(t, server.Close) })
	return &RedisServer{server: server}
}

// URL is the connection string of database 0.
func (r *RedisServer) URL() string { return r.server.URL() }

// Addr is host and port.
func (r *RedisServer) Addr() string { return r.server.Addr() }

// Port is the TCP port on 127.0.0.1.
func (r *RedisServer) Port() int { return r.server.Port() }

// Client makes a client that is closed at the end of the test.
func (r *RedisServer) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Config sets an option of the running server, as CONFIG SET does.
func (r *RedisServer) Config(t testing.TB, name, value string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr()})
	defer client.Close()
	control(t, func(ctx context.Context) error { return client.ConfigSet(ctx, name, value).Err() })
}

// Stop saves the data and ends the server.
func (r *RedisServer) Stop(t testing.TB) { t.Helper(); control(t, r.server.Stop) }

// Kill ends the server without saving anything.
func (r *RedisServer) Kill(t testing.TB) { t.Helper(); control(t, r.server.Kill) }

// Start starts it again on the same port, with what Stop saved or empty.
func (r *RedisServer) Start(t testing.TB, keepData bool) {
	t.Helper()
	control(t, func(ctx context.Context) error { return r.server.Start(ctx, keepData) })
}

// Restart stops and starts it.
func (r *RedisServer) Restart(t testing.TB, keepData bool) {
	t.Helper()
	r.Stop(t)
	r.Start(t, keepData)
}

// Pause freezes it: connections stay open and nothing answers.
func (r *RedisServer) Pause(t testing.TB) { t.Helper(); control(t, ignoreContext(r.server.Pause)) }

// Continue ends a Pause.
func (r *RedisServer) Continue(t testing.TB) {
	t.Helper()
	control(t, ignoreContext(r.server.Continue))
}
