package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounds of a [Replier].
const (
	replyQueue   = 1024
	replyBatch   = 64
	replyMaxAge  = 30 * time.Second // nobody waits longer for a reply
	replyLastTry = time.Second      // for what is queued when the manager ends
)

// ReplierOptions say where a [Replier] publishes.
type ReplierOptions struct {
	Client  redis.UniversalClient
	Channel string // the replies channel
	Manager string // the manager's name, put into every reply
	Logger  *slog.Logger
}

// Replier publishes replies in the background.
type Replier struct {
	opts  ReplierOptions
	queue chan queuedReply
}

type queuedReply struct {
	reply Reply
	at    time.Time
}

// NewReplier makes a replier that [Replier.Run] brings to life.
func NewReplier(opts ReplierOptions) *Replier {
	return &Replier{opts: opts, queue: make(chan queuedReply, replyQueue)}
}

// Reply queues a reply and never waits. A reply without an id is not sent. With more than a thousand of them waiting the new one
// is dropped and false returned. Any goroutine may call it.
func (r *Replier) Reply(reply Reply) bool {
	if reply.ID == "" {
		return true
	}
	reply.Manager = r.opts.Manager
	select {
	case r.queue <- queuedReply{reply, time.Now()}:
		return true
	default:
		return false
	}
}

// Run publishes until ctx ends, then once more what is queued by then, and returns nil. While Redis is away replies wait for up
// to 30 seconds.
func (r *Replier) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			r.finish(ctx, nil)
			return nil
		case first := <-r.queue:
			batch := r.batch(first)
			if !r.deliver(ctx, batch) {
				r.finish(ctx, batch)
				return nil
			}
		}
	}
}

// batch takes what is queued behind the first one.
func (r *Replier) batch(first queuedReply) []queuedReply {
	batch := []queuedReply{first}
	for len(batch) < replyBatch {
		select {
		case next := <-r.queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// deliver tries until the batch is out or too old. It returns false when ctx ended before.
func (r *Replier) deliver(ctx context.Context, batch []queuedReply) bool {
	var wait backoff
	for {
		err := r.publish(ctx, batch)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case time.Since(batch[len(batch)-1].at) > replyMaxAge:
			r.opts.Logger.Warn("replies dropped, they are too old", "count", len(batch), "error", err)
			return true
		case wait.next == 0:
			r.opts.Logger.Warn("replies wait for redis", "error", err)
		}
		pause(ctx, wait.step())
	}
}

// finish publishes what is left at the end, in a bounded time.
func (r *Replier) finish(ctx context.Context, batch []queuedReply) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyLastTry)
	defer cancel()
	for len(r.queue) > 0 {
		batch = append(batch, <-r.queue)
	}
	if len(batch) == 0 {
		return
	}
	if err := r.publish(ctx, batch); err != nil {
		r.opts.Logger.Warn("replies dropped at the end", "count", len(batch), "error", err)
	}
}

func (r *Replier) publish(ctx context.Context, batch []queuedReply) error {
	pipe := r.opts.Client.Pipeline()
	for _, q := range batch {
		data, err := json.Marshal(q.reply)
		if err != nil {
			return fmt.Errorf("encode reply: %w", err)
		}
		pipe.Publish(ctx, r.opts.Channel, data)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("publish replies: %w", err)
	}
	return nil
}
