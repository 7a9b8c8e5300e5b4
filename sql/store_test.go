package sql

import (
	"context"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

func TestCloseDoesNotWaitForAFrozenServer(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	store := open(t, pg)
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	pg.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := store.Ping(ctx); err == nil {
		t.Error("a frozen server answered")
	}
	began := time.Now()
	store.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	pg.Continue(t)
}
