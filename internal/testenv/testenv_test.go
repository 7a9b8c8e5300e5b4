package testenv_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"crawlkeeper/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPostgresIsPrivateToATest(t *testing.T) {
	t.Parallel()
	a, b := testenv.Postgres(t), testenv.Postgres(t)
	a.Exec(t, testenv.OldSchema)
	a.Exec(t, "INSERT INTO sources (code) VALUES ($1)", "one")
	b.Exec(t, testenv.OldSchema)
	if n := testenv.Value[int](t, a, "SELECT count(*) FROM sources"); n != 1 {
		t.Errorf("first database has %d sources, want 1", n)
	}
	if n := testenv.Value[int](t, b, "SELECT count(*) FROM sources"); n != 0 {
		t.Errorf("second database has %d sources, want 0", n)
	}
}

func TestPostgresFromATemplateIsPreparedOnce(t *testing.T) {
	t.Parallel()
	prepared := 0
	prepare := func(ctx context.Context, url string) error {
		prepared++
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, testenv.OldSchema)
		return err
	}
	for range 2 {
		db := testenv.PostgresFrom(t, "old", prepare)
		db.Exec(t, "INSERT INTO sources (code) VALUES ('one')")
	}
	if prepared > 1 { // once in a test process
		t.Errorf("prepared %d times, want once", prepared)
	}
}

func TestPostgresStopAndStart(t *testing.T) {
	t.Parallel()
	db := testenv.OwnPostgres(t)
	db.Exec(t, "CREATE TABLE kept (n int)")
	conn := db.Conn(t)
	db.Stop(t)
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a stopped server answered")
	}
	db.Start(t)
	db.Exec(t, "INSERT INTO kept VALUES (1)")
	db.Restart(t)
	if n := testenv.Value[int](t, db, "SELECT n FROM kept"); n != 1 {
		t.Errorf("kept %d, want 1", n)
	}
}

func TestPostgresPause(t *testing.T) {
	t.Parallel()
	db := testenv.OwnPostgres(t)
	conn := db.Conn(t)
	db.Pause(t)
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(context.Background()) }()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	db.Continue(t)
	if err := <-answered; err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

func TestRedisStopAndStart(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t)
	client := r.Client(t)
	set := func() {
		t.Helper()
		if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	has := func() bool {
		t.Helper()
		n, err := client.Exists(t.Context(), "k").Result()
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	}
	set()
	r.Restart(t, true)
	if !has() {
		t.Error("data was lost, want it kept")
	}
	r.Restart(t, false)
	if has() {
		t.Error("data was kept, want it lost")
	}
}

func TestRedisPauseAndConfig(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, "--requirepass", "", "--databases", "3")
	client := r.Client(t)
	r.Config(t, "maxmemory-policy", "allkeys-lru")
	got, err := client.ConfigGet(t.Context(), "maxmemory-policy").Result()
	if err != nil || got["maxmemory-policy"] != "allkeys-lru" {
		t.Errorf("policy is %v, %v", got, err)
	}
	r.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a paused server answered")
	}
	r.Continue(t)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

func TestLoggerOutlivesItsTest(t *testing.T) {
	t.Parallel()
	var log = testenv.Logger(t)
	t.Run("inner", func(t *testing.T) { log = testenv.Logger(t) })
	log.Info("after the end") // would panic
}

func TestEventually(t *testing.T) {
	t.Parallel()
	n := 0
	testenv.Eventually(t, time.Second, "three rounds", func() bool { n++; return n == 3 })
	if n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
}
