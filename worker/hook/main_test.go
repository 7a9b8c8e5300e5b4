package hook

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const patience = time.Minute

func newRunner(t *testing.T) *Runner {
	t.Helper()
	s, err := process.New(process.Options{Name: t.Name(), Scope: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	r := NewRunner(s)
	t.Cleanup(func() { r.Close(); cancel(); running.Wait() })
	return r
}

func sh(script string) *Hook {
	return &Hook{
		Point: "final", Timeout: patience,
		Command: process.Spec{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}},
	}
}
