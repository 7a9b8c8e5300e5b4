package status

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Event is one change of a worker's phase.
type Event struct {
	Source string
	From   string // phases
	To     string
	Cause  string // why, "" where the phase says it all
	At     time.Time
}

// MarshalJSON writes the event as the contract has it.
func (e Event) MarshalJSON() ([]byte, error) { return e.appendJSON(nil), nil }

func (e Event) appendJSON(b []byte) []byte {
	b = appendText(append(b, `{"source": `...), e.Source)
	b = appendText(append(b, `, "from": `...), e.From)
	b = appendText(append(b, `, "to": `...), e.To)
	b = appendText(append(b, `, "cause": `...), e.Cause)
	b = appendTime(append(b, `, "at": `...), e.At)
	return append(b, '}')
}

// Bounds of a [Publisher].
const (
	eventQueue   = 8192
	eventBatch   = 512
	eventGather  = 20 * time.Millisecond  // what follows an event within this time goes out with it
	eventPause   = 500 * time.Millisecond // after an error
	eventTimeout = time.Second            // for a batch, and for all that is queued when the manager ends
	eventTell    = 10 * time.Second       // until a line says what was dropped since; only one where more follows
)

// PublisherOptions say where a [Publisher] publishes.
type PublisherOptions struct {
	Client  redis.UniversalClient
	Channel string      // the events channel
	Dropped func(n int) // counts events that were lost, may be nil; any goroutine calls it
	Logger  *slog.Logger
}

// Publisher publishes events in the background. They are news, not a log: while Redis is away they are dropped and counted.
type Publisher struct {
	opts    PublisherOptions
	queue   chan *Event  // pointers: the queue is long, and empty as a rule
	dropped atomic.Int64 // since the last log line

	failing bool // owned by the goroutine of Run
}

// NewPublisher makes a publisher that [Publisher.Run] brings to life.
func NewPublisher(opts PublisherOptions) *Publisher {
	return &Publisher{opts: opts, queue: make(chan *Event, eventQueue)}
}

// Publish queues an event and never waits; with too many of them waiting it is dropped. Any goroutine may call it.
func (p *Publisher) Publish(e Event) {
	select {
	case p.queue <- &e:
	default:
		p.drop(1)
	}
}

func (p *Publisher) drop(n int) {
	p.dropped.Add(int64(n))
	if p.opts.Dropped != nil {
		p.opts.Dropped(n)
	}
}

// Run publishes until ctx ends, then what is queued by then, and returns nil.
func (p *Publisher) Run(ctx context.Context) error {
	var tell <-chan time.Time // nil: nothing was dropped that is not in the log
	for {
		select {
		case <-ctx.Done():
			p.finish(ctx)
			return nil
		case <-tell:
			tell = nil
			if !p.failing { // else that line is about them which says that redis takes them again
				p.tell()
			}
		case first := <-p.queue:
			if len(p.queue) < eventBatch {
				wait(ctx, eventGather)
			}
			if !p.sendInTime(ctx, p.batch(first)) {
				wait(ctx, eventPause)
			}
			if tell == nil && p.dropped.Load() > 0 {
				tell = time.After(eventTell)
			}
		}
	}
}

// tell says how many events were dropped since that was last said.
func (p *Publisher) tell() {
	if n := p.dropped.Swap(0); n > 0 {
		p.opts.Logger.Warn("events were dropped, as too many waited or redis did not take them", "dropped", n)
	}
}

func (p *Publisher) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventTimeout)
	defer cancel()
	for len(p.queue) > 0 && p.send(ctx, p.batch(<-p.queue)) {
	}
	if left := len(p.queue); left > 0 {
		p.drop(left)
	}
	p.tell()
}

// batch takes what is queued behind the first one.
func (p *Publisher) batch(first *Event) []*Event {
	batch := []*Event{first}
	for len(batch) < eventBatch {
		select {
		case next := <-p.queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// sendInTime lets a batch go out that has begun when ctx ends.
func (p *Publisher) sendInTime(ctx context.Context, batch []*Event) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventTimeout)
	defer cancel()
	return p.send(ctx, batch)
}

// send publishes a batch in one round trip, or drops it and returns false.
func (p *Publisher) send(ctx context.Context, batch []*Event) bool {
	pipe := p.opts.Client.Pipeline()
	for _, e := range batch {
		pipe.Publish(ctx, p.opts.Channel, e.appendJSON(nil))
	}
	_, err := pipe.Exec(ctx)
	if err != nil {
		p.drop(len(batch))
		if !p.failing {
			p.opts.Logger.Warn("events are dropped until redis takes them", "error", err)
		}
	} else if p.failing {
		p.opts.Logger.Info("events are published again", "dropped", p.dropped.Swap(0))
	}
	p.failing = err != nil
	return err == nil
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
