package manager

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
)

// trips stands in for the server: it notes when a round trip began and how many ticks it had.
type trips struct {
	began time.Time
	mu    sync.Mutex
	seen  []string
}

func (s *trips) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (s *trips) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, calls []redis.Cmder) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, fmt.Sprintf("%d at %v", len(calls), time.Since(s.began)))
		for _, c := range calls {
			if c.Args()[1] == cleanScript {
				c.(*redis.Cmd).SetVal("")
			} else {
				c.(*redis.Cmd).SetVal([]any{pushed})
			}
		}
		return nil
	}
}

// Ticks that fall due just behind each other share a round trip. None waits for what is not known to come soon, nor where a
// start waits, or somebody who asked for a tick.
func TestTicksThatFallDueTogetherGoOutTogether(t *testing.T) {
	t.Parallel()
	tick := func(l *lists, rule string) func() {
		return func() { l.Push([]push{{code: "a", rule: rule}}, func([]pushResult) {}) }
	}
	const ms = time.Millisecond
	type event struct {
		after time.Duration
		rule  string        // of a tick; "" cleans
		next  time.Duration // when the next tick falls due, as is known from then on
	}
	const never = time.Hour
	for name, c := range map[string]struct {
		events []event
		want   []string
	}{
		"none is near":              {[]event{{0, ruleAt, 4 * ms}, {4 * ms, ruleAt, never}}, []string{"1 at 0s", "1 at 4ms"}},
		"one is near":               {[]event{{0, ruleAt, 2 * ms}, {2 * ms, ruleAt, never}}, []string{"2 at 2ms"}},
		"the limit":                 {[]event{{0, ruleAt, 2 * ms}, {2 * ms, ruleAfter, 4 * ms}, {2 * ms, ruleAt, never}}, []string{"2 at 2ms", "1 at 4ms"}},
		"the one did not come":      {[]event{{0, ruleAt, 2 * ms}, {9 * ms, ruleAt, never}}, []string{"1 at 3ms", "1 at 9ms"}},
		"a start waits":             {[]event{{0, ruleAt, 2 * ms}, {ms, "", 2 * ms}}, []string{"2 at 1ms"}},
		"somebody asked for a tick": {[]event{{0, ruleNow, 2 * ms}, {2 * ms, ruleAt, never}}, []string{"1 at 0s", "1 at 2ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &trips{began: time.Now()}
				client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
				defer client.Close()
				client.AddHook(server)
				l := newLists(client, configs.Default().Redis, slog.New(slog.DiscardHandler))
				var mu sync.Mutex
				next := server.began.Add(never)
				l.soon = func() time.Duration { mu.Lock(); defer mu.Unlock(); return time.Until(next) }
				ctx, stop := context.WithCancel(t.Context())
				go func() { _ = l.Run(ctx) }()
				synctest.Wait()
				for _, e := range c.events {
					time.Sleep(e.after)
					mu.Lock()
					next = server.began.Add(e.next)
					mu.Unlock()
					if e.rule == "" {
						l.Clean(ctx, "b")
					} else {
						tick(l, e.rule)()
					}
				}
				time.Sleep(time.Second)
				stop()
				synctest.Wait()
				if !slices.Equal(server.seen, c.want) {
					t.Errorf("round trips: %q, want %q", server.seen, c.want)
				}
			})
		})
	}
}
