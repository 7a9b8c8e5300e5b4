package manager

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"crawlkeeper/configs"
	"crawlkeeper/status"
)

// expected is a source of which it is known when it is due. Within an hour a cron line is due as evenly as an interval.
type expected struct {
	every time.Duration
	next  time.Time
}

// punctual takes the ticks of all sources at once, and holds each against what is known of its source.
type punctual struct {
	t       *testing.T
	sources map[string]*expected
	ticks   int
}

func (p *punctual) Clean(context.Context, string) {}

// Push is called by the fleet's goroutine.
func (p *punctual) Push(pushes []push, done func([]pushResult)) {
	now := time.Now()
	results := make([]pushResult, len(pushes))
	for i, push := range pushes {
		e := p.sources[push.code]
		if !push.due.Equal(e.next) || !now.Equal(e.next) {
			p.t.Errorf("%s went out at %v, named %v, but is due at %v", push.code, now, push.due, e.next)
		}
		e.next = e.next.Add(e.every)
		p.ticks++
		results[i] = pushResult{result: pushed}
	}
	done(results)
}

// 100,000 sources for twenty minutes, in which the wall clock is set back and forth: each due time goes out exactly once, and
// not a nanosecond late on the fake clock. The sources have no worker, as that is a goroutine each: they are told to the
// fleet as those whose crawlers have started.
func TestManySourcesAreNeverLate(t *testing.T) {
	t.Parallel()
	const many = 100_000
	synctest.Test(t, func(t *testing.T) {
		p := &punctual{t: t, sources: make(map[string]*expected, many)}
		f := &fleet{
			conf: configs.Default(), logger: slog.New(slog.DiscardHandler), lists: p,
			metrics: status.NewMetrics(status.MetricsOptions{WithoutSources: true}), late: func() bool { return false },
		}
		var skew atomic.Int64
		f.clock.skew = func() time.Duration { return time.Duration(skew.Load()) }
		f.init()
		random := rand.New(rand.NewPCG(1, 2))
		for i := range many {
			code := fmt.Sprintf("s%d", i)
			s := &source{code: code, heapSlot: -1, trigger: triggerSchedule, adapter: &configs.Adapter{}}
			at := f.clock.now() // midnight
			e := &expected{}
			if i%2 == 0 {
				seconds, start := 300+random.IntN(3600), time.Duration(random.IntN(900))*time.Second
				if i%200 == 0 { // not when the loop turns anyway
					start += time.Duration(random.IntN(int(time.Second)))
				}
				s.row = row(code, seconds)
				e.every = time.Duration(seconds) * time.Second
				at = moment{at.mono + mono(start), at.wall.Add(start)}
				e.next = at.wall
			} else {
				second, minutes := 1+random.IntN(49), 5+random.IntN(55)
				s.row = cronRow(code, fmt.Sprintf("%d */%d * * * *", second, minutes))
				e.every = time.Duration(minutes) * time.Minute
				e.next = at.wall.Add(time.Duration(second) * time.Second)
			}
			p.sources[code], f.sources[code] = e, s
			f.replan(s, f.clock.now())
			f.started(s, at)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = f.Run(ctx); close(done) }()
		time.Sleep(10*time.Minute + 50*time.Second + half)
		skew.Store(int64(-time.Hour)) // all is placed anew, while no cron line is due
		time.Sleep(2 * time.Second)
		skew.Store(0)
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		stop()
		<-done
		if p.ticks < many {
			t.Errorf("only %d ticks", p.ticks)
		}
		for code, e := range p.sources {
			if !e.next.After(time.Now()) {
				t.Errorf("%s: due at %v, did not go out", code, e.next)
			}
		}
	})
}

// Whatever is placed, moved and taken out: the first is the earliest, and each source knows where it is.
func TestTheHeapKeepsItsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var h dueHeap
		sources := make([]*source, 20)
		for i := range sources {
			sources[i] = &source{heapSlot: -1}
		}
		in := map[*source]bool{}
		r.Repeat(map[string]func(*rapid.T){
			"place": func(r *rapid.T) {
				s := sources[rapid.IntRange(0, len(sources)-1).Draw(r, "source")]
				s.heapAt = mono(rapid.IntRange(-5, 50).Draw(r, "at"))
				h.place(s)
				in[s] = true
			},
			"drop": func(r *rapid.T) {
				s := sources[rapid.IntRange(0, len(sources)-1).Draw(r, "source")]
				h.drop(s)
				delete(in, s)
			},
			"": func(r *rapid.T) {
				if len(h) != len(in) {
					r.Fatalf("%d are in the heap, not %d", len(h), len(in))
				}
				for s := range in {
					if h[s.heapSlot] != s || s.heapAt < h[0].heapAt {
						r.Fatalf("slot %d, at %d; the first is at %d", s.heapSlot, s.heapAt, h[0].heapAt)
					}
				}
			},
		})
	})
}
