package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// ListenerOptions say where a [Listener] listens and whom it calls. All callbacks come from the goroutine of Run and must return
// soon: while one runs, nothing is read. Those that are nil are not called.
type ListenerOptions struct {
	Client  redis.UniversalClient
	Channel string // the control channel

	Handle     func(context.Context, Command) // a command
	Subscribed func(context.Context)          // after every new subscription: what was published before it may be lost
	Reply      func(Reply)                    // the error reply to a bad message that has an id
	Bad        func()                         // a bad message, to be counted

	// Next says how long it is until the end of a period, so that pings fall together with what else is done regularly. Nil: periods
	// begin when they are asked for.
	Next func(period time.Duration) time.Duration

	Logger *slog.Logger
}

// Listener receives the commands of the control channel for as long as it runs, over as many connections as that takes.
type Listener struct {
	opts ListenerOptions
	log  *slog.Logger

	pingEvery time.Duration // a silent connection is asked this often
	deadAfter time.Duration // and given up when nothing came for so long

	// Owned by the goroutine of Run.
	wait     backoff
	lostAt   time.Time // zero while subscribed
	badLines *FewLines
}

// NewListener makes a listener that [Listener.Run] brings to life.
func NewListener(opts ListenerOptions) *Listener {
	if opts.Next == nil {
		opts.Next = func(period time.Duration) time.Duration { return period }
	}
	return &Listener{
		opts: opts, log: opts.Logger.With("channel", opts.Channel),
		pingEvery: 3 * time.Second, deadAfter: 8 * time.Second,
		badLines: NewFewLines(),
	}
}

// Run listens until ctx ends and then returns nil. What is wrong with Redis is logged once, and once when it is well again.
func (l *Listener) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		err := l.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > maxBackoff {
			l.wait.reset()
		}
		l.lost(err)
		pause(ctx, l.wait.step())
	}
	return nil
}

// session lives as long as one connection and returns why it ended.
func (l *Listener) session(ctx context.Context) error {
	conn := newConnection(l.opts.Client.Subscribe(ctx), l.opts.Next, l.pingEvery, l.deadAfter)
	return conn.use(ctx, func() error {
		if err := conn.subscribe(ctx, l.opts.Channel); err != nil {
			return err
		}
		for {
			message, err := conn.receive(ctx)
			if err != nil {
				return err
			}
			l.dispatch(ctx, message)
		}
	})
}

func (l *Listener) dispatch(ctx context.Context, message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			l.subscribed(ctx)
		}
	case *redis.Message:
		l.message(ctx, m.Payload)
	}
}

func (l *Listener) message(ctx context.Context, payload string) {
	command, err := Parse([]byte(payload))
	if bad, ok := errors.AsType[*ParseError](err); ok {
		l.bad(payload, bad)
		return
	}
	if l.opts.Handle != nil {
		l.opts.Handle(ctx, command)
	}
}

func (l *Listener) bad(payload string, err *ParseError) {
	if l.opts.Bad != nil {
		l.opts.Bad()
	}
	if unlogged, ok := l.badLines.Pass(); ok {
		l.log.Warn("bad command, nothing was changed", "error", err.Problem, "id", err.ID, "message", excerpt(payload),
			"bytes", len(payload), "not_logged_before", unlogged)
	}
	if err.ID != "" && l.opts.Reply != nil {
		l.opts.Reply(Reply{ID: err.ID, Error: err.Problem})
	}
}

func (l *Listener) subscribed(ctx context.Context) {
	if l.lostAt.IsZero() {
		l.log.Debug("control channel subscribed")
	} else {
		l.log.Info("control channel is back", "away_seconds", time.Since(l.lostAt).Round(time.Millisecond).Seconds())
		l.lostAt = time.Time{}
	}
	if l.opts.Subscribed != nil {
		l.opts.Subscribed(ctx)
	}
}

func (l *Listener) lost(err error) {
	if !l.lostAt.IsZero() {
		return
	}
	l.lostAt = time.Now()
	l.log.Warn("control channel lost, commands do not arrive until it is back", "error", fmt.Errorf("listen: %w", err))
}

// excerpt is the beginning of a message, for a log line.
func excerpt(s string) string {
	const limit = 120
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
