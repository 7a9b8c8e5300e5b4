package testenv

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

// Logger writes to the test's log, down to debug. What is logged after the end of the test is dropped.
func Logger(t testing.TB) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(w.end)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu    sync.Mutex
	t     testing.TB // guarded by mu
	ended bool       // guarded by mu
}

func (w *testWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.t.Logf("%s", bytes.TrimRight(line, "\n"))
	}
	return len(line), nil
}

func (w *testWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}
