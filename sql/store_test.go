package sql

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

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

// The poll comes every second, and sometimes a little later: a ping would double what a manager at rest asks of Postgres.
func TestTheConnectionOfThePollIsNotPinged(t *testing.T) {
	t.Parallel()
	config, err := parse("postgres://localhost/x")
	if err != nil {
		t.Fatal(err)
	}
	for idle, want := range map[time.Duration]bool{1100 * time.Millisecond: false, 4 * time.Second: true} {
		if got := config.ShouldPing(t.Context(), pgxpool.ShouldPingParams{IdleDuration: idle}); got != want {
			t.Errorf("idle for %v: pinged is %v, want %v", idle, got, want)
		}
	}
}

func TestConnectionsThatNobodyUsesEndSoon(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]time.Duration{
		"postgres://localhost/x": 1500 * time.Millisecond,
		"postgres://localhost/x?pool_max_conn_idle_time=1h&pool_health_check_period=1h": time.Hour,
	} {
		config, err := parse(url)
		if err != nil {
			t.Fatal(err)
		}
		if config.MaxConnIdleTime != want || config.HealthCheckPeriod > want {
			t.Errorf("%s: %v, looked at every %v", url, config.MaxConnIdleTime, config.HealthCheckPeriod)
		}
	}
}
