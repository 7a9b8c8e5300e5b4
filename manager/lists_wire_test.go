package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/internal/testenv/wire"
)

// wiredLists runs lists through a wire until the test ends; the client that it returns goes past it.
func wiredLists(t *testing.T, cleaned func(code string, due time.Time)) (*lists, *wire.Wire, *redis.Client) {
	t.Helper()
	server := testenv.Redis(t)
	w := wire.New(t, server.Addr())
	// One connection, so that the next call goes out on the one that was made before the fault.
	client := redis.NewClient(&redis.Options{Addr: w.Addr(), MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ContextTimeoutEnabled: true})
	l := newLists(client, configs.Default().Redis, testenv.Logger(t))
	if cleaned != nil {
		l.cleaned = cleaned
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = l.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done; _ = client.Close() })
	return l, w, server.Client(t)
}

// settled pushes until Redis answers.
func (l *lists) settled(t *testing.T, pushes ...push) []string {
	t.Helper()
	var got []string
	eventually(t, "the pushes are answered", func() bool {
		got = l.results(t, pushes...)
		return !strings.Contains(strings.Join(got, " "), "away")
	})
	return got
}

func ticksAt(t *testing.T, rdb *redis.Client, code string) []string {
	t.Helper()
	ticks, err := rdb.LRange(t.Context(), "crawler:"+code+":start_urls", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}

func TestTheAnswerOfAPushIsLost(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprintf("taken meanwhile: %v", taken), func(t *testing.T) {
			t.Parallel()
			l, w, rdb := wiredLists(t, nil)
			l.settled(t, push{code: "warm", due: time.Unix(1, 0), rule: ruleAt})
			due := time.Unix(100, 0)
			p := push{code: "a", due: due, rule: ruleAfter, tick: tick{code: "a", trigger: triggerSchedule, due: due}.encode(configs.TickPlain)}
			w.CutAnswers(t, 0)
			if got := l.results(t, p)[0]; got != "away" {
				t.Fatalf("without an answer: %s", got)
			}
			ticks := ticksAt(t, rdb, "a")
			if len(ticks) != 1 || !strings.Contains(ticks[0], tickID("a", due)) {
				t.Fatalf("the server did not do it: %v", ticks)
			}
			if taken {
				rdb.Del(t.Context(), "crawler:a:start_urls")
			}
			w.Heal(t)
			if got := l.settled(t, p)[0]; got != again {
				t.Errorf("tried again: %s", got)
			}
			if n := len(ticksAt(t, rdb, "a")); n != 1 && !taken || n != 0 && taken {
				t.Errorf("%d ticks", n)
			}
			if got := rdb.HGet(t.Context(), "crawler:last_due", "a").Val(); got != due.UTC().Format(dueLayout) {
				t.Errorf("the last due time is %q", got)
			}
		})
	}
}

func TestTheAnswersOfAPipelineAreCutAnywhere(t *testing.T) {
	t.Parallel()
	const oneBatch = 6 + pushBatch*12 // "*256\r\n", and "$6\r\npushed\r\n" for each
	l, w, rdb := wiredLists(t, nil)
	for i, after := range []int{0, 100, oneBatch, oneBatch + 100, 2 * oneBatch} {
		l.settled(t, push{code: "warm", due: time.Unix(int64(i), 0), rule: ruleAt})
		var pushes []push
		for j := range 3 * pushBatch {
			pushes = append(pushes, push{code: fmt.Sprintf("s%d-%d", i, j), due: time.Unix(100, 0), rule: ruleAt, tick: fmt.Appendf(nil, "%d", j)})
		}
		w.CutAnswers(t, after)
		first := l.results(t, pushes...)
		if got := first[len(first)-1]; got != "away" { // the library forgets what came before the cut
			t.Fatalf("after %d bytes: %s", after, got)
		}
		w.Heal(t)
		for j, got := range l.settled(t, pushes...) {
			if first[j] == pushed && got != again || got != again && got != pushed {
				t.Fatalf("after %d bytes, push %d again: %s", after, j, got)
			}
		}
		for _, p := range pushes {
			if ticks := ticksAt(t, rdb, p.code); len(ticks) != 1 || ticks[0] != string(p.tick) {
				t.Fatalf("after %d bytes, %s: %v", after, p.code, ticks)
			}
		}
	}
}

func TestTheAnswerOfACleaningIsLost(t *testing.T) {
	t.Parallel()
	type told struct {
		code string
		due  time.Time
	}
	deleted := make(chan told, 10)
	l, w, rdb := wiredLists(t, func(code string, due time.Time) { deleted <- told{code, due} })
	ctx, due := t.Context(), time.Unix(100, 0)
	p := push{code: "a", due: due, rule: ruleAfter, tick: []byte("a")}
	l.settled(t, p)
	w.CutAnswers(t, 0)
	l.Clean(ctx, "a")
	if n := len(ticksAt(t, rdb, "a")); n != 0 || rdb.HGet(ctx, "crawler:last_due", "a").Val() != due.UTC().Format(deletedLayout) || len(deleted) != 0 {
		t.Fatalf("it was not done, or answered: %d ticks, told %d", n, len(deleted))
	}
	rdb.RPush(ctx, "crawler:a:requests", "of the crawler that was started")
	w.Heal(t)
	select {
	case got := <-deleted:
		if got.code != "a" || !got.due.Equal(due) {
			t.Errorf("told %+v", got)
		}
	case <-time.After(patience):
		t.Fatal("nobody is told of the tick that was deleted")
	}
	if rdb.Exists(ctx, "crawler:a:requests").Val() != 1 {
		t.Error("it was done again, to a crawler at work")
	}
	// The next manager hears of it too, until a tick went out.
	l.Clean(ctx, "a")
	if got := <-deleted; !got.due.Equal(due) {
		t.Errorf("told %+v", got)
	}
	if got := l.settled(t, p)[0]; got != pushed {
		t.Errorf("the tick comes again: %s", got)
	}
	rdb.Del(ctx, "crawler:a:start_urls")
	l.Clean(ctx, "a")
	if len(deleted) != 0 {
		t.Errorf("told of a tick that was taken: %+v", <-deleted)
	}
}

// A crawler takes ticks while the wire to Redis breaks again and again.
func TestTicksThroughAWireThatBreaks(t *testing.T) {
	t.Parallel()
	const sources, rounds = 8, 300
	for _, cleans := range []bool{false, true} {
		t.Run(fmt.Sprintf("with cleanings: %v", cleans), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 2))
			var mu sync.Mutex
			told := map[string]bool{}
			name := func(code string, due time.Time) string { return fmt.Sprintf("%s@%d", code, due.Unix()) }
			l, w, rdb := wiredLists(t, func(code string, due time.Time) { mu.Lock(); told[name(code, due)] = true; mu.Unlock() })
			taken := map[string]int{}
			take := func(code string) {
				ticks, err := rdb.LPopCount(context.Background(), "crawler:"+code+":start_urls", 10).Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					t.Fatal(err)
				}
				if len(ticks) > 1 {
					t.Fatalf("ticks wait behind each other: %v", ticks)
				}
				for _, text := range ticks {
					taken[text]++
				}
			}
			out := map[string][]string{} // what went out, by code, in order
			for round := range rounds {
				var pushes []push
				for i := range sources {
					code, due := fmt.Sprintf("s%d", i), time.Unix(int64(1000+round), 0)
					pushes = append(pushes, push{code, due, []string{ruleAt, ruleAfter}[i%2], []byte(name(code, due))})
				}
				broken := random.IntN(3) == 0
				if broken {
					w.CutAnswers(t, random.IntN(130))
				}
				if cleans && random.IntN(4) == 0 {
					l.Clean(t.Context(), fmt.Sprintf("s%d", random.IntN(sources)))
				}
				l.results(t, pushes...)
				if random.IntN(2) == 0 {
					take(fmt.Sprintf("s%d", random.IntN(sources)))
				}
				if broken {
					w.Heal(t)
				}
				for i, got := range l.settled(t, pushes...) {
					if got != waiting {
						out[pushes[i].code] = append(out[pushes[i].code], string(pushes[i].tick))
					}
				}
				for i := range sources {
					if random.IntN(2) == 0 {
						take(fmt.Sprintf("s%d", i))
					}
				}
			}
			for i := range sources {
				take(fmt.Sprintf("s%d", i))
			}
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for code, names := range out {
				for i, name := range names {
					// One that a cleaning deleted is told of, unless a later one went out first.
					lost := taken[name] == 0 && !told[name]
					if taken[name] > 1 || lost && (!cleans || i == len(names)-1) {
						t.Errorf("%s: taken %d times, told of its end: %v", name, taken[name], told[name])
					}
					n += taken[name]
					delete(taken, name)
				}
				if len(names) < rounds/4 {
					t.Errorf("%s: only %d ticks", code, len(names))
				}
			}
			if len(taken) != 0 {
				t.Errorf("taken, but never said to be pushed: %v", taken)
			}
			t.Logf("%d ticks were taken", n)
		})
	}
}
