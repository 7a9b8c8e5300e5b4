package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// perConnection is how many lists one connection waits for.
const perConnection = 50

// taker takes ticks as crawlers would that are never busy.
type taker struct {
	n      int
	client *redis.Client
	done   sync.WaitGroup
	stop   context.CancelFunc

	mu   sync.Mutex
	came map[string][]time.Time // by list
}

func list(i int) string { return fmt.Sprintf("crawler:%s:start_urls", code(i)) }

func takeTicks(address string, n int) *taker {
	ctx, cancel := context.WithCancel(context.Background())
	t := &taker{n: n, stop: cancel, came: map[string][]time.Time{}}
	t.client = redis.NewClient(&redis.Options{Addr: address, PoolSize: n/perConnection + 2, ContextTimeoutEnabled: true, MaxRetries: -1})
	for first := 0; first < n; first += perConnection {
		var lists []string
		for i := first; i < min(first+perConnection, n); i++ {
			lists = append(lists, list(i))
		}
		t.done.Go(func() { t.take(ctx, lists) })
	}
	return t
}

func (t *taker) take(ctx context.Context, lists []string) {
	for {
		got, err := t.client.BLPop(ctx, 0, lists...).Result()
		at := time.Now()
		if err != nil || len(got) != 2 {
			return
		}
		t.mu.Lock()
		t.came[got[0]] = append(t.came[got[0]], at)
		t.mu.Unlock()
	}
}

func (t *taker) close() {
	t.stop()
	_ = t.client.Close()
	t.done.Wait()
}

// forget empties what was noted.
func (t *taker) forget() {
	t.mu.Lock()
	clear(t.came)
	t.mu.Unlock()
}

// judge says what became of the intervals since forget.
func (t *taker) judge(interval time.Duration) ticks {
	t.mu.Lock()
	defer t.mu.Unlock()
	var f ticks
	var added []float64
	for _, times := range t.came {
		f.Came += len(times)
		for i := 1; i < len(times); i++ {
			gap := times[i].Sub(times[i-1])
			switch whole := int((gap + interval/2) / interval); whole {
			case 1:
				added = append(added, milliseconds(gap-interval))
			case 0:
				f.Twice++
			default:
				f.Lost += whole - 1
			}
		}
	}
	f.Added = spreadOf(added)
	return f
}

// count is how many came since forget.
func (t *taker) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, times := range t.came {
		n += len(times)
	}
	return n
}

// lateness is how long after a time each source's first tick came, in milliseconds, and how many came twice.
func (t *taker) lateness(due time.Time) (late []float64, twice int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, times := range t.came {
		late = append(late, milliseconds(times[0].Sub(due)))
		twice += len(times) - 1
	}
	return late, twice
}

// first is when each of these sources got its first tick since forget.
func (t *taker) first(among func(i int) bool) moments {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := moments{}
	for i := range t.n {
		if times := t.came[list(i)]; among(i) && len(times) > 0 {
			out[code(i)] = times[0]
		}
	}
	return out
}
