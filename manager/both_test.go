package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
)

// outside does things outside of a bubble, where real servers are. The fake clock stands still meanwhile, as who waits on
// a channel from outside of the bubble may be woken by somebody there.
type outside struct {
	mu    sync.Mutex // held by who is in the bubble and waits
	calls chan func()
	done  chan struct{}
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{calls: make(chan func()), done: make(chan struct{})}
	var loop sync.WaitGroup
	loop.Go(func() {
		for call := range o.calls {
			call()
			o.done <- struct{}{}
		}
	})
	t.Cleanup(func() { close(o.calls); loop.Wait() })
	return o
}

func (o *outside) do(call func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls <- call
	<-o.done
}

// onRedis is the pusher of a fleet in a bubble. It hands what is to be done to real lists outside.
type onRedis struct {
	*outside
	lists   *lists
	fleet   *fleet
	pushed  int
	deleted []time.Time // by the cleaning under way
	away    int
}

// newOnRedis is for use outside of the bubble. These lists do not ask for the manager's key: both managers think it theirs.
func newOnRedis(t *testing.T, o *outside, client *redis.Client) *onRedis {
	t.Helper()
	p := &onRedis{outside: o, lists: newLists(client, configs.Default().Redis, slog.New(slog.DiscardHandler))}
	p.lists.cleaned = func(_ string, due time.Time) { p.deleted = append(p.deleted, due) }
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { _ = p.lists.Run(ctx) })
	t.Cleanup(func() { cancel(); loop.Wait() })
	return p
}

// Push holds up the fleet meanwhile, so that pushes and cleanings stay in the order in which they were asked for.
func (p *onRedis) Push(pushes []push, done func([]pushResult)) {
	var results []pushResult
	p.do(func() {
		answer := make(chan []pushResult)
		p.lists.Push(pushes, func(r []pushResult) { answer <- r })
		results = <-answer
		for _, r := range results {
			switch {
			case r.err != nil:
				p.away++
			case r.result == pushed:
				p.pushed++
			}
		}
	})
	done(results)
}

func (p *onRedis) Clean(_ context.Context, code string) {
	var deleted []time.Time
	p.do(func() {
		op := operation{clean: code, id: uuid.NewString(), done: make(chan struct{})}
		p.lists.put(op)
		<-op.done
		deleted, p.deleted = p.deleted, nil
		p.pushed -= len(deleted)
	})
	for _, due := range deleted {
		p.fleet.inbox.put(func() { p.fleet.cleaned(p.fleet.sources[code], due) })
	}
}

// crawlers take ticks now and then. Everything runs outside of the bubble.
type crawlers struct {
	t     *testing.T
	rdb   *redis.Client
	codes []string
	taken map[string]int // by source and due time
}

func (c *crawlers) take(which func() bool) {
	for _, code := range c.codes {
		key := "crawler:" + code + ":start_urls"
		if n := c.rdb.LLen(context.Background(), key).Val(); n > 1 {
			c.t.Errorf("%s: %d ticks wait", code, n)
		}
		if !which() {
			continue
		}
		text, err := c.rdb.LPop(context.Background(), key).Bytes()
		if err != nil {
			continue // none waits
		}
		var tick struct {
			DueAt string `json:"due_at"`
		}
		if err := json.Unmarshal(text, &tick); err != nil || tick.DueAt == "" {
			c.t.Errorf("%s: tick %s, %v", code, text, err)
		}
		c.taken[code+" "+tick.DueAt]++
	}
}

// Two managers that both think themselves the active one, with wall clocks that do not agree, on one Redis for an hour:
// no due time reaches a crawler twice, and no tick waits behind another.
func TestTwoFleetsOnOneRedis(t *testing.T) {
	t.Parallel()
	rdb := testenv.Redis(t).Client(t)
	o := newOutside(t)
	pushers := [2]*onRedis{newOnRedis(t, o, rdb), newOnRedis(t, o, rdb)}
	random := rand.New(rand.NewPCG(3, 4))
	c := &crawlers{t: t, rdb: rdb, taken: map[string]int{}}
	var rows []sql.Source
	for i := range 8 {
		interval := row(fmt.Sprintf("i%d", i), 20+13*i)
		interval.Jitter = time.Duration(i) * time.Second
		rows = append(rows, interval, cronRow(fmt.Sprintf("c%d", i), fmt.Sprintf("%d/%d * * * * *", i, 5+5*i)))
		c.codes = append(c.codes, rows[2*i].Code, rows[2*i+1].Code)
	}
	synctest.Test(t, func(t *testing.T) {
		var benches [2]*bench
		for i, p := range pushers {
			b := newBench(t)
			b.lists, p.fleet, b.skew = p, b.fleet, time.Duration(i)*17*time.Second
			benches[i] = b
			defer b.launch(t.Context())()
			b.poll(rows...)
		}
		for begin := time.Now(); time.Since(begin) < time.Hour; {
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
			o.do(func() { c.take(func() bool { return random.IntN(3) > 0 }) })
			if random.IntN(10) == 0 {
				benches[random.IntN(2)].do(control.Command{Action: "restart", Sources: []string{c.codes[random.IntN(len(c.codes))]}})
			}
		}
	})
	c.take(func() bool { return true })
	for due, n := range c.taken {
		if n > 1 {
			t.Errorf("%s went out %d times", due, n)
		}
	}
	a, b := pushers[0], pushers[1]
	t.Logf("pushed %d and %d, less what cleanings deleted; taken %d; redis was away %d and %d times", a.pushed, b.pushed, len(c.taken), a.away, b.away)
	if a.away+b.away == 0 && a.pushed+b.pushed != len(c.taken) {
		t.Errorf("pushed %d and %d, taken %d", a.pushed, b.pushed, len(c.taken))
	}
	if len(c.taken) < 1000 {
		t.Errorf("only %d ticks", len(c.taken))
	}
}
