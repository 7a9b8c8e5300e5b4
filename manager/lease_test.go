package manager

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/worker/process"
)

// answers is a Redis that says what a function says; nothing goes over a network.
type answers func() (string, error)

func (answers) DialHook(next redis.DialHook) redis.DialHook { return next }
func (answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		text, err := a()
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		cmd.(*redis.Cmd).SetVal(text)
		return nil
	}
}

// redisOf is a client of it, which never dials. A name of a host would be looked up all the same, and that breaks the bubble of
// synctest after the first one.
func redisOf(a answers) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	client.AddHook(a)
	return client
}

// A Redis that comes back is asked soon, whatever the beat: another manager may have the key by then.
func TestAfterAnOutageTheKeyIsReadSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		const every, away, back = 20 * time.Second, 30 * time.Second, 45 * time.Second
		client := redisOf(func() (string, error) {
			switch at := time.Since(began); {
			case at < away:
				return held, nil
			case at < back:
				return "", errors.New("away")
			}
			return `{"name":"another"}`, nil
		})
		defer client.Close()
		l := &lease{client: client, key: "k", every: every, ttl: time.Minute, logger: slog.New(slog.DiscardHandler)}
		if err := l.Run(t.Context()); !errors.Is(err, ErrOtherHands) {
			t.Errorf("it ended with %v", err)
		}
		if late := time.Since(began) - back; late < 0 || late > retryEvery {
			t.Errorf("it noticed %v after Redis was back", late)
		}
	})
}

// The key may expire while Redis is away. A successor on the same host is known by what it wrote there: nothing is started
// from then on, until the key is found to be ours after all.
func TestWhoIsDeposedOnThisHostStartsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		const every, back = time.Second, 3500 * time.Millisecond
		client := redisOf(func() (string, error) {
			if time.Since(began) < back {
				return "", errors.New("away")
			}
			return taken, nil
		})
		defer client.Close()
		var deposed atomic.Bool
		deposed.Store(true)
		l := &lease{
			client: client, key: "k", every: every, ttl: time.Minute, logger: slog.New(slog.DiscardHandler),
			deposed: deposed.Load, reign: func() { deposed.Store(false) },
		}
		l.beat.Store(int64(process.SinceBoot()))
		go l.Run(t.Context())
		if err := l.Gate(t.Context()); err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited < back || waited > back+every {
			t.Errorf("a start waited for %v, want until the key is ours again", waited)
		}
	})
}

// Whether this manager may start anything is asked last: what stands before may take longer than the key lives.
func TestWhetherAStartIsAllowedIsAskedLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		began := time.Now()
		var asked atomic.Int64
		b.needs.Gate = func(context.Context) error { time.Sleep(time.Minute); return nil } // fake time
		b.mayStart = func(context.Context) error { asked.Store(int64(time.Since(began))); return nil }
		end := b.launch(t.Context())
		b.poll(row("a", 3600))
		time.Sleep(2 * time.Minute)
		if got := time.Duration(asked.Load()); got != time.Minute {
			t.Errorf("asked after %v", got)
		}
		end()
		time.Sleep(time.Minute) // the second marks
	})
}
