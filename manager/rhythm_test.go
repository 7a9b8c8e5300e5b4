package manager

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// What is done regularly stays at the same moments, however late it began and however slow the answers are. Else each loop would
// wake up the manager by itself.
func TestRegularWorkStaysTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every, slow, rounds = 2 * time.Second, 30 * time.Millisecond, 5
		together := rhythm{time.Now()}
		<-time.After(300 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		var asked []time.Duration
		client := redisOf(func() (string, error) {
			if asked = append(asked, time.Since(together.began)); len(asked) == rounds {
				cancel()
			}
			<-time.After(slow)
			return held, nil
		})
		defer client.Close()
		l := &lease{client: client, key: "k", every: every, ttl: time.Minute, rhythm: together, logger: slog.New(slog.DiscardHandler)}
		if err := l.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for i, at := range asked {
			if want := time.Duration(i+1) * every; at != want {
				t.Errorf("the key was renewed %v after the beginning, not %v", at, want)
			}
		}
	})
}

func TestARhythmWithoutAMomentBeginsNow(t *testing.T) {
	t.Parallel()
	if d := (rhythm{}).next(time.Second); d != time.Second {
		t.Errorf("the period ends in %v", d)
	}
}
