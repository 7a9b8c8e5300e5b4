package manager

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/internal/testenv"
)

// logLines counts what is logged.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// admin is a client whose rights the test does not take away.
func admin(t *testing.T, server *testenv.RedisServer) *redis.Client {
	t.Helper()
	if err := server.Client(t).Do(t.Context(), "acl", "setuser", "admin", "on", ">secret", "allcommands", "allkeys", "allchannels").Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "admin", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestWhatRedisRefuses(t *testing.T) {
	t.Parallel()
	const all, one, nobody = "away", "refused", pushed
	allKeys := "acl setuser default allkeys allcommands"
	for name, c := range map[string]struct {
		breaks, mends []string
		a, b          string // what becomes of their ticks
		warns, errors int    // lines
	}{
		"a password is set": {[]string{"config set requirepass x", "client kill type normal skipme yes"}, []string{"config set requirepass ''"}, all, all, 1, 0},
		"the key of one list is forbidden": {[]string{"acl setuser default resetkeys ~crawler:manager ~crawler:last_due ~crawler:b:* ~crawler:c:*"},
			[]string{allKeys}, one, nobody, 0, 1},
		"a key that all share is forbidden": {[]string{"acl setuser default resetkeys ~crawler:manager ~crawler:*:start_urls ~crawler:*:requests"}, []string{allKeys}, all, all, 1, 0},
		"a command is forbidden":            {[]string{"acl setuser default -lpush"}, []string{allKeys}, all, all, 1, 0},
		"scripts are forbidden":             {[]string{"acl setuser default -eval"}, []string{allKeys}, all, all, 1, 0},
		"a list is another type":            {[]string{"set crawler:a:start_urls x"}, []string{"del crawler:a:start_urls"}, one, nobody, 0, 0},
		"the due times are another type":    {[]string{"set crawler:last_due x"}, []string{"del crawler:last_due"}, all, all, 1, 0},
		"it is full":                        {[]string{"config set maxmemory 1"}, []string{"config set maxmemory 0"}, all, all, 1, 0},
		"it is read-only":                   {[]string{"replicaof 127.0.0.1 1"}, []string{"replicaof no one"}, all, all, 1, 0},
		"the scripts are flushed":           {[]string{"script flush"}, nil, nobody, nobody, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, server, _ := runLists(t)
			var lines logLines
			l.logger = slog.New(slog.NewTextHandler(&lines, nil))
			boss, ctx := admin(t, server), t.Context()
			do := func(commands []string) {
				t.Helper()
				for _, line := range commands {
					var args []any
					for word := range strings.FieldsSeq(line) {
						args = append(args, strings.Trim(word, "'"))
					}
					if err := boss.Do(ctx, args...).Err(); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
				}
			}
			due := 0
			round := func() []string {
				due++
				boss.Del(ctx, "crawler:b:start_urls")
				if c.a != one {
					boss.Del(ctx, "crawler:a:start_urls")
				}
				at := time.Unix(int64(1000+due), 0)
				return l.results(t, push{"a", at, ruleAt, []byte("a")}, push{"b", at, ruleAt, []byte("b")}, push{"c", at, ruleAt, []byte("c")})
			}
			boss.RPush(ctx, "crawler:c:start_urls", "one that waits")
			do(c.breaks)
			for range 5 {
				l.Clean(ctx, "a")
				if got := round(); got[0] != c.a || got[1] != c.b {
					t.Fatalf("%v, want %s and %s", got, c.a, c.b)
				}
				l.results(t, push{"c", time.Unix(1, 0), ruleAt, []byte("c")}) // alone: it waits, which says nothing of the others
			}
			if w, e := lines.count("level=WARN"), lines.count("level=ERROR"); w != c.warns || e != c.errors || lines.count("takes ticks again") != 0 {
				t.Errorf("%d warnings and %d errors, want %d and %d:\n%s", w, e, c.warns, c.errors, lines.text.String())
			}
			do(c.mends)
			eventually(t, "both get ticks again", func() bool {
				boss.Del(ctx, "crawler:a:start_urls")
				got := round()
				return got[0] == pushed && got[1] == pushed
			})
			if n := lines.count("takes ticks again"); n != c.warns {
				t.Errorf("it said %d times that all is well", n)
			}
		})
	}
}

// A push that was refused and is sent again by itself must not land behind a cleaning that was asked for after it.
func TestATickThatWasRefusedWithOthersIsOvertakenByACleaning(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	boss := admin(t, server)
	l := newLists(server.Client(t), configs.Default().Redis, testenv.Logger(t))
	if err := boss.Do(t.Context(), "acl", "setuser", "default", "resetkeys", "~crawler:manager", "~crawler:last_due", "~crawler:b:*").Err(); err != nil {
		t.Fatal(err)
	}
	var results []pushResult
	due := time.Unix(1000, 0)
	l.Push([]push{{"a", due, ruleAt, []byte("a")}, {"b", due, ruleAt, []byte("b")}}, func(r []pushResult) { results = r })
	l.put(operation{clean: "b", id: "1", done: make(chan struct{})})
	l.runOnce(t.Context(), false)
	if errors.Is(results[0].err, errAway) || results[0].err == nil || !errors.Is(results[1].err, errOvertaken) {
		t.Errorf("%+v", results)
	}
	if n := boss.LLen(t.Context(), "crawler:b:start_urls").Val(); n != 0 {
		t.Error("a tick for the last process waits for the next")
	}
}

// countedLists counts how often a tick of a is tried.
type countedLists struct {
	*bench
	tries atomic.Int64
}

func (c *countedLists) Push(pushes []push, done func([]pushResult)) {
	for _, p := range pushes {
		if p.code == "a" {
			c.tries.Add(1)
		}
	}
	c.bench.Push(pushes, done)
}

func TestBackoffOfTicksGrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		others  bool  // go on
		tries   int64 // in ten minutes
		longest time.Duration
	}{
		// 0.1, 0.2, … 3.2 s, and then every 5 s; 1, 2, … 32 s, and then every minute.
		"all of Redis": {fmt.Errorf("%w: full", errAway), false, 1 + 6 + 118 + 2, holdMax},
		"one list":     {errors.New("WRONGTYPE"), true, 1 + 6 + 9 + 1, retryMax},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleetBubble(t, func(b *bench) {
				counted := &countedLists{bench: b}
				b.lists = counted
				b.mu.Lock()
				b.bad["a"] = c.err
				b.list["busy"] = []string{"one that waits"}
				if !c.others {
					b.bad["b"] = c.err
				}
				b.mu.Unlock()
				b.poll(row("a", 3600), row("b", 60), row("busy", 1))
				for range 600 {
					time.Sleep(time.Second)
					b.take("b")
				}
				if n := counted.tries.Load(); n > c.tries || n < c.tries/2 {
					t.Errorf("tried %d times in ten minutes, want %d", n, c.tries)
				}
				b.mu.Lock()
				others := len(b.pushes)
				delete(b.bad, "a")
				delete(b.bad, "b")
				before := counted.tries.Load()
				b.mu.Unlock()
				if (others > 5) != c.others {
					t.Errorf("%d ticks of others", others)
				}
				time.Sleep(c.longest)
				if n := counted.tries.Load() - before; n != 1 {
					t.Errorf("mended, tried %d times within %v", n, c.longest)
				}
			})
		})
	}
}

func TestOneListThatIsForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	boss := admin(t, w.redis)
	if err := boss.Do(t.Context(), "acl", "setuser", "default", "resetkeys", "~starts", "~crawler:status", "~crawler:manager", "~crawler:last_due",
		"~crawler:b:*", "~crawler:a:requests").Err(); err != nil {
		t.Fatal(err)
	}
	w.source("a", "b")
	r := w.start()
	w.reports(2)
	w.tickOf("b")
	said := ""
	eventually(t, "it says why", func() bool {
		r.ask(t.Context(), func() { said = r.fleet.sources["a"].said })
		return said != ""
	})
	if !strings.Contains(said, "NOPERM") || !strings.Contains(said, "crawlkeeper doctor") {
		t.Error(said)
	}
	if err := boss.Do(t.Context(), "acl", "setuser", "default", "allkeys").Err(); err != nil {
		t.Fatal(err)
	}
	w.tickOf("a")
}
