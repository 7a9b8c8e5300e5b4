package chaos

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/internal/testenv/wire"
)

// primary is the Redis that takes writes, and the wire before it. In half of the rounds it has a replica, and a sentinel that
// tells managers and crawlers who of the two it is.
type primary struct {
	servers  []*testenv.RedisServer
	wires    []*wire.Wire
	ports    []int // of the wires
	now      atomic.Int32
	sentinel string // host and port, "" where there is none
}

func newPrimary(t *testing.T, replicated bool) *primary {
	t.Helper()
	p := &primary{}
	for range 2 {
		port := testenv.FreePort(t)
		server := testenv.Redis(t, "--replica-announce-port", strconv.Itoa(port), "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
		p.servers, p.ports, p.wires = append(p.servers, server), append(p.ports, port), append(p.wires, wire.At(t, port, server.Addr()))
		if !replicated {
			return p
		}
	}
	p.sentinel = testenv.Sentinel(t, p.ports[0])
	if err := p.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, "the sentinel knows the replica", func() bool {
		return p.inSync(t.Context()) && strings.Contains(fmt.Sprint(p.ask(t.Context(), "SENTINEL", "REPLICAS", testenv.SentinelMaster).Val()), strconv.Itoa(p.ports[1]))
	})
	return p
}

func (p *primary) server() *testenv.RedisServer { return p.servers[p.now.Load()] }
func (p *primary) wire() *wire.Wire             { return p.wires[p.now.Load()] }
func (p *primary) other() int                   { return 1 - int(p.now.Load()) }

// url is what managers and crawlers are told.
func (p *primary) url(t *testing.T) string {
	t.Helper()
	if p.sentinel == "" {
		return p.wire().URL(t, p.server().URL())
	}
	return "redis+sentinel://" + p.sentinel + "/0?master=" + testenv.SentinelMaster
}

// client leads to the primary of the moment, past the wire.
func (p *primary) client(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:0", ContextTimeoutEnabled: true, // the dialer knows better
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.server().Addr())
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// ask speaks with the sentinel.
func (p *primary) ask(ctx context.Context, args ...any) *redis.Cmd {
	return tell(ctx, p.sentinel, args...)
}

// tell speaks with one server.
func tell(ctx context.Context, addr string, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1, Protocol: 2, ContextTimeoutEnabled: true})
	defer client.Close()
	return client.Do(ctx, args...)
}

// follow makes the other server the primary's replica.
func (p *primary) follow(ctx context.Context) error {
	return tell(ctx, p.servers[p.other()].Addr(), "REPLICAOF", "127.0.0.1", p.ports[p.now.Load()]).Err()
}

// inSync tells whether the replica has all that the primary has.
func (p *primary) inSync(ctx context.Context) bool {
	text, _ := tell(ctx, p.servers[p.other()].Addr(), "INFO", "replication").Text()
	return strings.Contains(text, "role:slave") && strings.Contains(text, "master_link_status:up")
}

// failover kills the primary, lets the sentinel promote the replica, and brings the dead one back as its replica.
func failover(r *round, st step) {
	p, ctx := r.redis, r.t.Context()
	if !until(ctx, 10*time.Second, func() bool { return p.inSync(ctx) }) {
		r.count("failovers that were left out, as the replica was behind")
		return
	}
	r.loseData() // what was written last may not be in the replica
	old := int(p.now.Load())
	p.servers[old].Kill(r.t)
	next := strconv.Itoa(p.ports[1-old])
	promoted := func() bool { // one that did not get the processor for a while says no for 30 s
		_ = p.ask(ctx, "SENTINEL", "FAILOVER", testenv.SentinelMaster)
		at, _ := p.ask(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", testenv.SentinelMaster).StringSlice()
		return len(at) == 2 && at[1] == next
	}
	if until(ctx, 90*time.Second, promoted) {
		p.now.Store(int32(1 - old))
		r.count("replicas that a sentinel promoted")
	} else {
		r.violated("breaker", "sentinel", "it promotes no replica")
	}
	r.loseData()
	r.wait(st.hold)
	p.servers[old].Start(r.t, false)
	if err := p.follow(ctx); err != nil {
		r.note("redis", "", err.Error())
	}
}

// until asks every 100 ms whether something is so.
func until(ctx context.Context, limit time.Duration, so func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !so() {
		if !sleep(ctx, 100*time.Millisecond) {
			return false
		}
	}
	return true
}
