package process

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// filing lets a few calls that change directories run at a time: each that blocks holds a thread, and thousands of processes start
// and end at once. On a dead mount such a call never ends, and nobody waits for it for ever.
type filing struct {
	slots chan struct{}
	limit time.Duration
	ended atomic.Uint64 // calls
}

const (
	fileSlots = 2
	fileLimit = 5 * time.Second
)

var errHangs = errors.New("it does not answer (a mount that hangs?)")

func newFiling(limit time.Duration) *filing {
	return &filing{slots: make(chan struct{}, fileSlots), limit: limit}
}

// do calls f, with a context that ends with the limit alone. It returns errHangs where that takes too long, or the turn does not come
// as nothing of others has ended for as long: f may then never be called, or end at some time. A queue that moves is waited for. ctx
// ends the wait for the turn, after which f is not called: what f makes, somebody has to remove behind it.
func (c *filing) do(ctx context.Context, f func(context.Context)) error {
	if err := c.turn(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { <-c.slots; c.ended.Add(1) }()
		f(limited)
	}()
	select {
	case <-done:
		return nil
	case <-limited.Done():
		return errHangs
	}
}

// turn takes a slot.
func (c *filing) turn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for before := c.ended.Load(); ; {
		timer := time.NewTimer(c.limit)
		select {
		case c.slots <- struct{}{}:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		now := c.ended.Load()
		if now == before {
			return errHangs
		}
		before = now
	}
}

// try is do without a context. False is an error.
func (c *filing) try(f func()) bool {
	return c.do(context.Background(), func(context.Context) { f() }) == nil
}
