package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/control"
)

// publishes is a Redis that takes what is published as a function says; nothing goes over a network.
type publishes func(ctx context.Context) error

func (publishes) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (publishes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (p publishes) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, _ []redis.Cmder) error { return p(ctx) }
}

func replierTo(t *testing.T, log *lines, p publishes) *control.Replier {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	client.AddHook(p)
	t.Cleanup(func() { _ = client.Close() })
	return control.NewReplier(control.ReplierOptions{Client: client, Channel: repliesChannel, Logger: slog.New(slog.NewTextHandler(log, nil))})
}

// Where more comes than goes out all the time, what is dropped is said every ten seconds, and the rest at the end.
func TestReplierSaysWhatItDropsWhileItDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second+time.Millisecond)
		defer cancel()
		log, dropped := &lines{}, 0
		var replier *control.Replier
		flood := func() {
			for replier.Reply(control.Reply{ID: "1"}) {
			}
			dropped++
		}
		replier = replierTo(t, log, func(context.Context) error {
			select {
			case <-time.After(time.Second):
				flood()
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		flood()
		ended := make(chan error)
		go func() { ended <- replier.Run(ctx) }()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		told := 0
		said := regexp.MustCompile(`too many waited" count=(\d+)`).FindAllStringSubmatch(log.text.String(), -1)
		for _, line := range said {
			n, _ := strconv.Atoi(line[1])
			told += n
		}
		if len(said) != 8 || told != dropped {
			t.Errorf("%d lines in 65 s about %d replies, %d were dropped", len(said), told, dropped)
		}
	})
}

// However many replies wait, an outage is one line; the next one is another.
func TestReplierSaysOnceThatRedisIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, away := &lines{}, atomic.Bool{}
		replier := replierTo(t, log, func(context.Context) error {
			if away.Load() {
				return errors.New("away")
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- replier.Run(ctx) }()
		for outage := range 2 {
			away.Store(true)
			for i := range 10_000 {
				replier.Reply(control.Reply{ID: fmt.Sprint(i)})
			}
			for i := range 120 { // some grow too old
				replier.Reply(control.Reply{ID: fmt.Sprint(i)})
				time.Sleep(time.Second)
			}
			if n := log.count("replies wait for redis"); n != outage+1 {
				t.Errorf("%d lines about %d outages", n, outage+1)
			}
			if n := log.count("too old"); n == 0 || n > 12*(outage+1) {
				t.Errorf("%d lines about replies that are too old", n)
			}
			away.Store(false)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}
