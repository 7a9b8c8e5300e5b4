package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
)

// runLists runs lists on a Redis of their own until the test ends.
func runLists(t *testing.T) (*lists, *testenv.RedisServer, *redis.Client) {
	t.Helper()
	server := testenv.Redis(t)
	client := server.Client(t)
	l := newLists(client, configs.Default().Redis, testenv.Logger(t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = l.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return l, server, client
}

// results pushes and waits for what became of it, as text.
func (l *lists) results(t *testing.T, pushes ...push) []string {
	t.Helper()
	c := make(chan []pushResult, 1)
	l.Push(pushes, func(r []pushResult) { c <- r })
	select {
	case got := <-c:
		out := make([]string, 0, len(got))
		for _, r := range got {
			switch {
			case errors.Is(r.err, errAway):
				out = append(out, "away")
			case r.err != nil:
				out = append(out, "refused")
			default:
				out = append(out, r.result)
			}
		}
		return out
	case <-time.After(patience):
		t.Fatal("no results")
		return nil
	}
}

func TestPushRules(t *testing.T) {
	t.Parallel()
	l, server, rdb := runLists(t)
	ctx := t.Context()
	at := func(s int) time.Time { return time.Date(2026, 11, 29, 10, 0, s, 0, time.UTC) }
	take := func(code string) { rdb.Del(ctx, "crawler:"+code+":start_urls") }
	step := func(what, want string, p push) {
		t.Helper()
		p.tick = []byte(what)
		if got := l.results(t, p)[0]; got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	step("first", pushed, push{code: "a", due: at(10), rule: ruleAt})
	step("the same again, its answer was lost", again, push{code: "a", due: at(10), rule: ruleAt})
	step("one still waits", waiting, push{code: "a", due: at(20), rule: ruleAt})
	take("a")
	step("the same again, taken meanwhile", again, push{code: "a", due: at(10), rule: ruleAt})
	step("an interval whose clock was set back", pushed, push{code: "a", due: at(5), rule: ruleAt})
	take("a")
	step("cron", pushed, push{code: "c", due: at(30), rule: ruleAfter})
	take("c")
	step("cron, set back", again, push{code: "c", due: at(29), rule: ruleAfter})
	step("by hand", pushed, push{code: "c", due: at(29), rule: ruleNow})
	step("by hand, one waits", waiting, push{code: "c", due: at(29), rule: ruleNow})
	if got, err := LastDues(ctx, rdb, l.keys); err != nil || !got["c"].Equal(at(30)) || !got["a"].Equal(at(5)) {
		t.Errorf("%v %v", got, err)
	}
	deleted := make(chan time.Time, 9)
	l.cleaned = func(_ string, due time.Time) { deleted <- due }
	l.Clean(ctx, "c")
	if len(deleted) != 0 {
		t.Error("a tick by hand has no due time that could come again")
	}
	step("the next", pushed, push{code: "c", due: at(40), rule: ruleAfter})
	l.Clean(ctx, "c")
	if got := <-deleted; !got.Equal(at(40)) {
		t.Errorf("cleaned %v", got)
	}
	step("what went out before it does not, whatever the clock shows", again, push{code: "c", due: at(30), rule: ruleAfter})
	if got, err := LastDues(ctx, rdb, l.keys); err != nil || !got["c"].Equal(at(40).Add(-dueStep)) {
		t.Errorf("after a cleaning: %v %v", got, err)
	}
	rdb.RPush(ctx, "crawler:c:start_urls", "a stranger's")
	l.Clean(ctx, "c")
	if got := <-deleted; !got.Equal(at(40)) {
		t.Errorf("cleaned once more %v", got)
	}
	step("what the cleaning deleted comes again", pushed, push{code: "c", due: at(40), rule: ruleAfter})

	rdb.Set(ctx, "crawler:w:start_urls", "x", 0)
	rdb.SAdd(ctx, "crawler:s:start_urls", "x")
	if got := l.results(t, push{code: "w", due: at(1), rule: ruleAt}, push{code: "ok", due: at(1), rule: ruleAt}, push{code: "s", due: at(1), rule: ruleAt}); strings.Join(got, " ") != "refused pushed refused" {
		t.Errorf("%v", got)
	}
	server.Config(t, "maxmemory", "1")
	step("out of memory", "away", push{code: "m", due: at(1), rule: ruleAt})
	server.Config(t, "maxmemory", "0")
	rdb.Do(ctx, "REPLICAOF", "127.0.0.1", "1")
	step("read only", "away", push{code: "m", due: at(1), rule: ruleAt})
	rdb.Do(ctx, "REPLICAOF", "NO", "ONE")
	rdb.ScriptFlush(ctx)
	step("after a flush of scripts", pushed, push{code: "m", due: at(1), rule: ruleAt})
	server.Stop(t)
	step("stopped", "away", push{code: "m", due: at(2), rule: ruleAt})
	server.Start(t, true)
	eventually(t, "it is back", func() bool { return l.results(t, push{code: "n", due: at(2), rule: ruleAt})[0] != "away" })
}

// What is told comes in the order in which the server did it: a tick that a cleaning behind it deleted is not taken for one that waits.
func TestACleaningIsToldOfBehindThePush(t *testing.T) {
	t.Parallel()
	l := newLists(testenv.Redis(t).Client(t), configs.Default().Redis, testenv.Logger(t))
	var told []string
	l.cleaned = func(string, time.Time) { told = append(told, "cleaned") }
	l.Push([]push{{"a", time.Unix(100, 0), ruleAfter, []byte("a")}}, func(r []pushResult) { told = append(told, r[0].result) })
	l.put(operation{clean: "a", id: "1", done: make(chan struct{})})
	l.runOnce(t.Context(), false)
	if got := strings.Join(told, " "); got != "pushed cleaned" {
		t.Errorf("told: %s", got)
	}
}

// A cleaning that is refused notes nothing; one of a server without memory notes all.
func TestWhatACleaningNotes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, r *testenv.RedisServer)
		last  string // in last_due
		ticks int64
	}{
		"it may not delete": {func(t *testing.T, r *testenv.RedisServer) {
			if err := r.Client(t).Do(t.Context(), "ACL", "SETUSER", "default", "-del").Err(); err != nil {
				t.Fatal(err)
			}
		}, "1970-01-01T00:01:40.000000Z", 1},
		"no memory": {func(t *testing.T, r *testenv.RedisServer) { r.Config(t, "maxmemory", "1") }, "1970-01-01T00:01:40.000000Y", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.Redis(t)
			client := server.Client(t)
			l := newLists(client, configs.Default().Redis, testenv.Logger(t))
			l.Push([]push{{"a", time.Unix(100, 0), ruleAfter, []byte("a")}}, func([]pushResult) {})
			l.runOnce(t.Context(), false)
			c.spoil(t, server)
			l.put(operation{clean: "a", id: "1", done: make(chan struct{})})
			l.runOnce(t.Context(), false)
			last, n := client.HGet(t.Context(), "crawler:last_due", "a").Val(), client.LLen(t.Context(), "crawler:a:start_urls").Val()
			if last != c.last || n != c.ticks {
				t.Errorf("%s, and %d ticks", last, n)
			}
		})
	}
}

func TestManyTicksAtOnce(t *testing.T) {
	t.Parallel()
	l, _, rdb := runLists(t)
	due := time.Now()
	var pushes []push
	for i := range 2*pushBatch + 7 {
		pushes = append(pushes, push{code: fmt.Sprintf("s%04d", i), due: due, rule: ruleAt, tick: fmt.Appendf(nil, "tick %d", i)})
	}
	rdb.RPush(t.Context(), "crawler:s0300:start_urls", "old")
	for i, got := range l.results(t, pushes...) {
		want := pushed
		if i == 300 {
			want = waiting
		}
		if got != want {
			t.Errorf("%d: %s", i, got)
		}
	}
	for i, p := range pushes {
		want := string(p.tick)
		if i == 300 {
			want = "old"
		}
		if got := rdb.LRange(t.Context(), "crawler:"+p.code+":start_urls", 0, -1).Val(); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v", p.code, got)
		}
	}
}

func TestDrainLetsOpenRunsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ drain, want string }{"with time": {"60s", "succeeded"}, "without": {"0s", "interrupted"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.configure("manager: {name: test, drain_timeout: "+c.drain+", status_interval: 100ms, status_ttl: 3s}", standin(t, "*", "-ticks", "-runs", "-run-for", "1s"))
			w.source("a")
			r := w.start()
			eventually(t, "a run is open", func() bool {
				return testenv.Value[int](t, w.pg, `select count(*) from crawl_runs where status='running'`) == 1
			})
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			if got := testenv.Value[string](t, w.pg, `select status from crawl_runs`); got != c.want {
				t.Errorf("the run is %s, want %s", got, c.want)
			}
		})
	}
}

func TestStartRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure("manager: {name: test, start_rate: 4, status_interval: 100ms, status_ttl: 3s}", standin(t, "*"))
	w.source("a", "b", "c", "d", "e")
	w.start()
	w.reports(5)
	eventually(t, "all are written down", func() bool {
		return testenv.Value[int](t, w.pg, `select count(started_at) from crawl_processes`) == 5
	})
	starts := testenv.Value[float64](t, w.pg, `select extract(epoch from max(started_at)-min(started_at))::float8 from crawl_processes`)
	if starts < 0.9 {
		t.Errorf("five starts within %v s, at most 4 a second", starts)
	}
	w.must(control.Command{Action: "restart", All: true})
	w.reports(5)
}
