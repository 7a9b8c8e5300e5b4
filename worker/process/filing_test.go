package process

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Thousands of calls on a slow disk wait far longer than one call may take, and none of them is given up.
func TestAQueueThatMovesIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newFiling(fileLimit)
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := c.do(t.Context(), func(context.Context) { time.Sleep(time.Second) }); err != nil { // fake time
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 50*time.Second {
			t.Errorf("100 calls of a second, two at a time, took %v", took)
		}
	})
}

func TestACallThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newFiling(fileLimit)
		began, dead := time.Now(), make(chan struct{})
		var all sync.WaitGroup
		for range 2 * fileSlots { // half of them never get a turn
			all.Go(func() {
				if err := c.do(t.Context(), func(context.Context) { <-dead }); !errors.Is(err, errHangs) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != fileLimit {
			t.Errorf("they were given up after %v", took)
		}
		close(dead)
		if !c.try(func() {}) {
			t.Error("what ended late holds its slot")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.do(ctx, func(ctx context.Context) { <-ctx.Done() }); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
