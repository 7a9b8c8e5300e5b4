package testenv

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"crawlkeeper/internal/testenv/servers"
)

// shared is what all tests of this process use together.
var shared struct {
	mu       sync.Mutex
	env      *servers.Env      // guarded by mu; made at first use
	postgres *servers.Postgres // guarded by mu; made at first use
	template map[string]*template
	binaries map[string]*binary
}

// Main runs the tests, stops the shared servers and then looks for goroutines that were left. It does not return.
func Main(m *testing.M, opts ...goleak.Option) {
	redis.SetLogger(quiet{}) // it prints every failed dial; tests stop servers on purpose
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: stop servers:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(append(opts, ofWires...)...); err != nil {
			fmt.Fprintln(os.Stderr, "testenv:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// environment is the shared folder of servers, made at first use.
func environment(t testing.TB) *servers.Env {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.env == nil {
		env, err := servers.New()
		if err != nil {
			t.Fatalf("testenv: %v", err)
		}
		shared.env = env
	}
	return shared.env
}

func closeShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.env == nil {
		return nil
	}
	return shared.env.Close()
}

// ofWires are what internal/testenv/wire may leave: the library's links hold a delayed or unwanted answer for as long as its
// other end is gone, and have no way to be told.
var ofWires = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"),
}

type quiet struct{}

// Printf drops a line.
func (quiet) Printf(context.Context, string, ...any) {}
