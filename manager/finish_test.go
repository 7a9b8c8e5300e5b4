package manager

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/worker/hook"
)

// A reload may have given crawlers more time to end: the last hooks have what is left of that, and no more.
func TestTheLastHooksHaveTheTimeOfTheLastReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stop := func(timeout time.Duration) *configs.Config {
			return &configs.Config{Adapters: map[string]configs.Adapter{"*": {StopTimeout: timeout}}}
		}
		m := &Manager{conf: stop(2 * time.Second), fleet: &fleet{conf: stop(30 * time.Second)}, hooks: &hooks{queue: hook.NewQueue(9, 1)}}
		m.Logger = slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.hooks.queue.Run(ctx) }()
		synctest.Wait()
		m.hooks.queue.Put("a", func(ctx context.Context) { <-ctx.Done() })
		began := time.Now()
		m.finishHooks(began.Add(-10 * time.Second)) // the crawlers took ten
		if took := time.Since(began); took != 21*time.Second {
			t.Errorf("the hooks had %v", took)
		}
		cancel()
		<-ended
	})
}
