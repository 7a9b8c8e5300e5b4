package manager

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

// accepting takes all ticks at once.
type accepting struct{ results []pushResult }

func (a *accepting) Clean(context.Context, string) {}
func (a *accepting) Push(pushes []push, done func([]pushResult)) {
	a.results = a.results[:0]
	for range pushes {
		a.results = append(a.results, pushResult{result: pushed})
	}
	done(a.results)
}

// BenchmarkTicks is one tick of each of 1,000 sources, from the heap to its next due time, without Redis.
func BenchmarkTicks(b *testing.B) {
	const n = 1000
	f := &fleet{
		conf: configs.Default(), logger: slog.New(slog.DiscardHandler), lists: &accepting{},
		metrics: status.NewMetrics(status.MetricsOptions{}), late: func() bool { return false },
	}
	f.init()
	now := f.clock.now()
	adapter, _ := f.adapter("*")
	for i := range n {
		code := fmt.Sprint("source-", i)
		s := &source{code: code, heapSlot: -1, trigger: triggerSchedule, row: row(code, 5), adapter: adapter}
		f.sources[code] = s
		f.replan(s, now)
		f.started(s, now)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range f.sources {
			s.due.at = now.mono // due again
			s.heapAt = now.mono
		}
		f.turn(now)
		f.inbox.run()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/tick")
}

// BenchmarkPush is one round trip with a full call of the script.
func BenchmarkPush(b *testing.B) {
	r := testenv.Redis(b)
	l := newLists(r.Client(b), configs.Default().Redis, slog.New(slog.DiscardHandler))
	pushes := make([]push, pushBatch)
	due := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		due = due.Add(time.Second)
		for i := range pushes {
			pushes[i] = push{fmt.Sprint("source-", i), due, ruleNow, []byte(`{"trigger": "schedule", "backfill_hours": 24}`)}
		}
		l.Push(pushes, func([]pushResult) {})
		l.runOnce(b.Context(), false)
	}
}
