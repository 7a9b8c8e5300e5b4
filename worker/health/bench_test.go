package health

import (
	"container/heap"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkThousandWatched is a round of looks at facts of 1,000 crawlers, without the servers that are asked; and what the
// four checks of one crawler take in memory.
func BenchmarkThousandWatched(b *testing.B) {
	const crawlers = 1000
	m := New(Options{})
	m.began = time.Now()
	before := heapInUse()
	for i := range crawlers {
		var checks []Check
		for _, k := range []Kind{TickTaken, Output, Run, Heartbeat} {
			checks = append(checks, Check{Kind: k, Every: 30 * time.Second, For: time.Hour, Unhealthy: 3, Healthy: 1})
		}
		m.begin(b.Context(), Target{Source: fmt.Sprint(i), ProcessID: fmt.Sprint(i), Started: time.Now(), Checks: checks, Judge: func(Verdict) {}})
	}
	memory := heapInUse() - before
	for b.Loop() {
		now := time.Now()
		round := len(m.due)
		for range round {
			l := heap.Pop(&m.due).(*look)
			l.began = now
			switch l.Kind {
			case TickTaken:
				m.settle(l, l.tickTaken(Seen{Text: "tick"}, now, time.Time{}))
			case Heartbeat:
				m.settle(l, l.heartbeat(Seen{Text: "beat"}, now, time.Time{}))
			default:
				m.settle(l, l.output(now, time.Time{}))
			}
		}
	}
	b.ReportMetric(float64(memory)/crawlers, "B/crawler")
	runtime.KeepAlive(m)
}

func heapInUse() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
