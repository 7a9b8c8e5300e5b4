package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounds of a [Replier].
const (
	// mostAnswers wait: a reply is one, and one more for each source in it. 5,000 commands at once are 10,000; 49 times `restart all`
	// with 5,000 sources, which are all answered in one moment, are 245,000. Such replies keep about 25 MiB, those with one source each 80 MiB.
	mostAnswers  = 250_000
	droppedEvery = 10 * time.Second // what is dropped is logged this often at most
	replyBatch   = 256
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
	opts ReplierOptions
	wake chan struct{} // capacity 1: something is in the queue

	mu      sync.Mutex // guards what follows, up to ended
	queue   []queuedReply
	answers int // in the queue
	dropped int // as the queue was full; Run does not know yet
	ended   bool

	// Owned by the goroutine of Run.
	untold int              // dropped as too many waited, and not logged yet
	old    int              // the same for those that waited too long
	told   time.Time        // when what was dropped was last logged
	later  <-chan time.Time // when it may be logged again; nil where nothing is left to log
	away   bool             // the last batch did not go out
}

type queuedReply struct {
	reply Reply
	at    time.Time
}

func (q queuedReply) answers() int { return 1 + len(q.reply.Results) }

// NewReplier makes a replier that [Replier.Run] brings to life.
func NewReplier(opts ReplierOptions) *Replier {
	return &Replier{opts: opts, wake: make(chan struct{}, 1)}
}

// Reply queues a reply and never waits. A reply without an id is not sent. Where hundreds of thousands of answers wait the new one is
// dropped, which is logged, and false returned; so it is once Run has ended. Any goroutine may call it.
func (r *Replier) Reply(reply Reply) bool {
	if reply.ID == "" {
		return true
	}
	reply.Manager = r.opts.Manager
	queued := r.put(queuedReply{reply, time.Now()})
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return queued
}

func (r *Replier) put(q queuedReply) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	if r.answers > 0 && r.answers+q.answers() > mostAnswers {
		r.dropped++
		return false
	}
	r.queue = append(r.queue, q)
	r.answers += q.answers()
	return true
}

// Run publishes until ctx ends, then once more what is queued by then, and returns nil. While Redis is away replies wait for up
// to 30 seconds.
func (r *Replier) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			r.finish(ctx, nil)
			return nil
		case <-r.wake:
		case <-r.later:
		}
		for batch := r.take(replyBatch); len(batch) > 0; batch = r.take(replyBatch) {
			if !r.deliver(ctx, batch) {
				r.finish(ctx, batch)
				return nil
			}
		}
	}
}

// take returns the oldest in the queue, as many at most, and says what was dropped.
func (r *Replier) take(most int) []queuedReply {
	batch, dropped := r.oldest(most, false)
	r.untold += dropped
	if wait := droppedEvery - time.Since(r.told); r.untold+r.old == 0 || wait <= 0 {
		r.tell()
	} else if r.later == nil {
		r.later = time.After(wait)
	}
	return batch
}

// tell logs what was dropped.
func (r *Replier) tell() {
	r.later = nil
	if r.untold > 0 {
		r.opts.Logger.Warn("replies dropped, too many waited", "count", r.untold)
		r.untold, r.told = 0, time.Now()
	}
	if r.old > 0 {
		r.opts.Logger.Warn("replies dropped, they are too old", "count", r.old)
		r.old, r.told = 0, time.Now()
	}
}

// oldest takes from the queue. With the last of it nothing is queued any more.
func (r *Replier) oldest(most int, last bool) (batch []queuedReply, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(most, len(r.queue))
	batch = slices.Clone(r.queue[:n])
	r.queue = r.queue[n:]
	for _, q := range batch {
		r.answers -= q.answers()
	}
	if len(r.queue) == 0 {
		r.queue = nil
	}
	r.ended = last
	dropped, r.dropped = r.dropped, 0
	return batch, dropped
}

// deliver tries until the batch is out or too old. It returns false when ctx ended before.
func (r *Replier) deliver(ctx context.Context, batch []queuedReply) bool {
	var wait backoff
	for {
		err := r.publish(ctx, batch)
		switch {
		case err == nil:
			r.away = false
			return true
		case ctx.Err() != nil:
			return false
		case time.Since(batch[len(batch)-1].at) > replyMaxAge:
			r.old += len(batch)
			return true
		case !r.away:
			r.away = true
			r.opts.Logger.Warn("replies wait for redis", "error", err)
		}
		pause(ctx, wait.step())
	}
}

// finish publishes what is left at the end, in a bounded time.
func (r *Replier) finish(ctx context.Context, batch []queuedReply) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyLastTry)
	defer cancel()
	left, dropped := r.oldest(mostAnswers, true)
	r.untold += dropped
	r.tell()
	for rest := slices.Concat(batch, left); len(rest) > 0; {
		n := min(replyBatch, len(rest))
		if err := r.publish(ctx, rest[:n]); err != nil {
			r.opts.Logger.Warn("replies dropped at the end", "count", len(rest), "error", err)
			return
		}
		rest = rest[n:]
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
