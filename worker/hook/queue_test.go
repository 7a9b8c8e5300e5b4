package hook

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func runQueue(t *testing.T, bound, atOnce int, test func(t *testing.T, q *Queue, end func())) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(bound, atOnce)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = q.Run(ctx); close(done) }()
		end := func() { cancel(); <-done }
		test(t, q, end)
		end()
	})
}

func TestJobsOfOneKeyKeepTheirOrder(t *testing.T) {
	runQueue(t, 100, 4, func(t *testing.T, q *Queue, _ func()) {
		var ran [3][]int // each is written by the jobs of one key alone, which the race detector holds them to
		for i := range 30 {
			q.Put(fmt.Sprint(i%3), func(context.Context) {
				time.Sleep(time.Duration(30-i) * time.Millisecond)
				ran[i%3] = append(ran[i%3], i)
			})
		}
		if err := q.Below(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for key := range ran {
			if len(ran[key]) != 10 || !slices.IsSorted(ran[key]) {
				t.Errorf("key %d: %v", key, ran[key])
			}
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	runQueue(t, 10, 3, func(t *testing.T, q *Queue, _ func()) {
		var running, most, ran atomic.Int64
		accepted := 0
		for i := range 100 {
			if q.Put(fmt.Sprint(i), func(context.Context) {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				ran.Add(1)
			}) {
				accepted++
			}
		}
		if accepted != 10 || q.Len() != 10 {
			t.Errorf("%d were accepted, %d are there", accepted, q.Len())
		}
		began := time.Now()
		if err := q.Below(t.Context(), 10); err != nil || time.Since(began) != time.Second || !q.Put("x", func(context.Context) {}) {
			t.Errorf("there is room after %s: %v", time.Since(began), err)
		}
		_ = q.Below(t.Context(), 1)
		if ran.Load() != 10 || most.Load() != 3 {
			t.Errorf("%d ran, %d at once", ran.Load(), most.Load())
		}
		if len(q.waiting) != 0 {
			t.Error("something is left of an empty queue")
		}
	})
}

func TestTheEndOfAQueue(t *testing.T) {
	runQueue(t, 10, 1, func(t *testing.T, q *Queue, end func()) {
		var cut []string
		for i := range 3 {
			q.Put("a", func(ctx context.Context) {
				if i == 0 {
					<-ctx.Done()
				}
				if ctx.Err() != nil {
					cut = append(cut, fmt.Sprint(i))
				}
			})
		}
		synctest.Wait()
		end()
		if !slices.Equal(cut, []string{"0", "1", "2"}) {
			t.Errorf("told of the end: %v", cut)
		}
		if q.Put("a", func(context.Context) {}) {
			t.Error("a job was accepted after the end")
		}
	})
}

func TestTheEndWaitsForNobodyLong(t *testing.T) {
	runQueue(t, 10, 1, func(t *testing.T, q *Queue, end func()) {
		q.Put("a", func(context.Context) { time.Sleep(time.Hour) })
		synctest.Wait()
		began := time.Now()
		end()
		if took := time.Since(began); took != endLimit {
			t.Errorf("the end took %s", took)
		}
		time.Sleep(time.Hour)
	})
}
