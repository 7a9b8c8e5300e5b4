package control

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// connection is one subscription that notices when its other end is gone. Reads have no deadline, as a deadline in the middle of
// a large message would leave the rest of it in the stream; a second goroutine asks for a sign of life instead and closes the
// connection when none comes.
type connection struct {
	pubsub               *redis.PubSub
	next                 func(period time.Duration) time.Duration
	pingEvery, deadAfter time.Duration

	lastSeen atomic.Int64 // unix nanoseconds of the last thing that was received
	reading  atomic.Bool  // false while the receiver is busy with what it got
	gaveUp   error        // why the watch closed the connection; its goroutine writes it, it is read when that has ended
}

func newConnection(pubsub *redis.PubSub, next func(time.Duration) time.Duration, pingEvery, deadAfter time.Duration) *connection {
	return &connection{pubsub: pubsub, next: next, pingEvery: pingEvery, deadAfter: deadAfter}
}

// use calls f and watches the connection meanwhile. The connection is closed when ctx ends, when the other end is silent for too
// long, and after f.
func (c *connection) use(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { c.watch(ctx) })
	err := f()
	cancel()
	watch.Wait()
	return cmp.Or(c.gaveUp, err)
}

// subscribe asks for a channel; the answer comes with receive.
func (c *connection) subscribe(ctx context.Context, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, c.deadAfter)
	defer cancel()
	if err := c.pubsub.Subscribe(ctx, channel); err != nil {
		return fmt.Errorf("subscribe to %s: %w", channel, err)
	}
	return nil
}

// receive waits for the next message, answer to a subscription, or answer to a ping.
func (c *connection) receive(ctx context.Context) (any, error) {
	c.lastSeen.Store(time.Now().UnixNano())
	c.reading.Store(true)
	defer c.reading.Store(false)
	message, err := c.pubsub.Receive(ctx)
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	return message, nil
}

// watch pings while nothing comes, closes the connection when nothing came for too long, and at the end of ctx.
func (c *connection) watch(ctx context.Context) {
	defer c.pubsub.Close() //nolint:errcheck // it says no more than that it was closed before
	timer := time.NewTimer(c.pingEvery)
	defer timer.Stop()
	for {
		timer.Reset(c.next(c.pingEvery))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !c.reading.Load() {
			continue
		}
		silent := time.Since(time.Unix(0, c.lastSeen.Load()))
		if silent >= c.deadAfter {
			c.gaveUp = fmt.Errorf("redis is silent for %s", silent.Round(time.Second))
			return
		}
		if silent >= c.pingEvery {
			c.gaveUp = c.ping(ctx)
		}
		if c.gaveUp != nil {
			return
		}
	}
}

func (c *connection) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.pingEvery)
	defer cancel()
	if err := c.pubsub.Ping(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}
