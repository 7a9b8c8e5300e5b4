package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/control"
)

const (
	// commandCount is how many commands come in commandTime, each for another source, in commandParts parts.
	commandCount = 1000
	commandTime  = time.Second
	commandParts = 100
	// answered is how long the last one may take.
	answered = time.Minute
)

// mixed are the actions, in turn.
var mixed = []string{control.ActionRestart, control.ActionTick, control.ActionPause}

func actionOf(i int) string { return mixed[i%len(mixed)] }

// commandLoad sends restarts, ticks and pauses mixed, and looks when each was answered and when it can be seen.
func commandLoad(ctx context.Context, o options, r *report) error {
	return inWorld(ctx, o, commandCount, setup{interval: seldom}, func(w *world) error {
		taker := takeTicks(w.redis.Addr(), w.n)
		defer taker.close()
		return w.withManager(ctx, func(m managed) error {
			if _, err := w.starts.wait(ctx, w.n, m.Exited()); err != nil {
				return err
			}
			if err := sleep(ctx, rested); err != nil {
				return err
			}
			taker.forget()
			return w.mixedCommands(ctx, r, m, taker)
		})
	})
}

// moments are when something happened to each source.
type moments map[string]time.Time

// since are the times from one moment to the other, of those that have both, in milliseconds.
func (later moments) since(earlier moments) []float64 {
	var out []float64
	for code, at := range later {
		if began, ok := earlier[code]; ok {
			out = append(out, milliseconds(at.Sub(began)))
		}
	}
	return out
}

func (w *world) mixedCommands(ctx context.Context, r *report, m managed, taker *taker) error {
	replies := w.client.Subscribe(ctx, repliesChannel)
	defer replies.Close() //nolint:errcheck // nothing is lost with it
	if _, err := replies.Receive(ctx); err != nil {
		return fmt.Errorf("subscribe to replies: %w", err)
	}
	count := map[string]int{}
	for i := range w.n {
		count[actionOf(i)]++
	}
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	var reading sync.WaitGroup
	var replied, started moments
	var failed error
	reading.Go(func() { replied, failed = takeReplies(ctx, replies, w.n) })
	var notStarted error
	reading.Go(func() {
		all, err := w.starts.wait(ctx, count[control.ActionRestart], m.Exited())
		started, notStarted = moments{}, err
		for _, s := range all {
			started[s.code] = s.at
		}
	})
	sent, err := w.sendMixed(ctx)
	if err != nil {
		cancel()
	}
	reading.Wait()
	if err := cmp.Or(err, failed, notStarted); err != nil {
		return err
	}
	ticked := moments{}
	come := func() (bool, error) {
		ticked = taker.first(isTick)
		return len(ticked) >= count[control.ActionTick], nil
	}
	_ = until(ctx, calm, "all ticks came", come) // what is missing is lost
	paused, err := w.paused(ctx)
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("commands in %s", commandTime), w.n, "")
	r.add("lost", w.n-len(replied)+count[control.ActionRestart]-len(started)+count[control.ActionTick]-len(ticked)+count[control.ActionPause]-paused, "")
	r.add("answered, p50 / p99 / max", spreadOf(replied.since(sent)), "")
	r.add("restart to the new crawler's first word, p50 / p99 / max", spreadOf(started.since(sent)), "")
	r.add("tick to the crawler that takes it, p50 / p99 / max", spreadOf(ticked.since(sent)), "")
	r.add("pauses that stand in Postgres", paused, fmt.Sprintf("of %d", count[control.ActionPause]))
	return nil
}

// isTick tells whether the source of that number got a tick by hand.
func isTick(i int) bool { return actionOf(i) == control.ActionTick }

// sendMixed sends evenly, and returns when each was sent.
func (w *world) sendMixed(ctx context.Context) (moments, error) {
	sent := moments{}
	pace := time.NewTicker(commandTime / commandParts)
	defer pace.Stop()
	for first := 0; first < w.n; first += w.n / commandParts {
		_, err := w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := first; i < min(first+w.n/commandParts, w.n); i++ {
				sent[code(i)] = time.Now()
				if err := w.publish(ctx, p, control.Command{Action: actionOf(i), Sources: []string{code(i)}, ID: code(i)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("send commands: %w", err)
		}
		<-pace.C
	}
	return sent, nil
}

// takeReplies takes n replies. All have to say that it was done.
func takeReplies(ctx context.Context, replies *redis.PubSub, n int) (moments, error) {
	at := moments{}
	for len(at) < n {
		message, err := replies.ReceiveMessage(ctx)
		if err != nil {
			return nil, fmt.Errorf("%d of %d commands were answered: %w", len(at), n, err)
		}
		var reply control.Reply
		if err := json.Unmarshal([]byte(message.Payload), &reply); err != nil || !reply.OK {
			return nil, fmt.Errorf("a command failed: %s", message.Payload)
		}
		at[reply.ID] = time.Now()
	}
	return at, nil
}

// paused counts the sources that are.
func (w *world) paused(ctx context.Context) (n int, err error) {
	db, err := pgx.Connect(ctx, w.postgres.URL(database))
	if err != nil {
		return 0, fmt.Errorf("connect to postgres: %w", err)
	}
	defer db.Close(ctx) //nolint:errcheck // it was read
	if err := db.QueryRow(ctx, "SELECT count(*) FROM sources WHERE paused_until > now()").Scan(&n); err != nil {
		return 0, fmt.Errorf("count pauses: %w", err)
	}
	return n, nil
}
