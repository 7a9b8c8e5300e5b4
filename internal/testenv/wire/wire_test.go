package wire_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/internal/testenv/wire"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestRedisThroughAWire(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	direct := server.Client(t)
	w := wire.New(t, server.Addr())
	options, err := redis.ParseURL(w.URL(t, server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries, options.ContextTimeoutEnabled = -1, true
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	incr := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return client.Incr(ctx, "n").Err()
	}
	for _, c := range []struct {
		name  string
		fault func()
		limit time.Duration
		fails bool
		done  bool // the server did it
	}{
		{"whole", func() {}, time.Minute, false, true},
		{"cut", w.Cut, time.Minute, true, false},
		{"the answer is cut off", func() { w.CutAnswers(t, 0) }, time.Minute, true, true},
		{"the answer is cut in two", func() { w.CutAnswers(t, 2) }, time.Minute, true, true},
		{"half open", func() { w.Silence(t) }, 200 * time.Millisecond, true, false},
		{"slow", func() { w.Slow(t, 50*time.Millisecond) }, time.Minute, false, true},
	} {
		w.Heal(t)
		testenv.Eventually(t, time.Minute, "it is whole", func() bool { return client.Ping(t.Context()).Err() == nil })
		before, _ := direct.Get(t.Context(), "n").Int()
		c.fault()
		began := time.Now()
		if err := incr(c.limit); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name == "slow" && time.Since(began) < 50*time.Millisecond {
			t.Errorf("slow: %v", time.Since(began))
		}
		if after, _ := direct.Get(t.Context(), "n").Int(); (after > before) != c.done {
			t.Errorf("%s: %d before, %d after", c.name, before, after)
		}
	}
}

// A child that is between fork and exec listens too.
func TestAPortThatIsTakenForAMoment(t *testing.T) {
	t.Parallel()
	w := wire.New(t, testenv.Redis(t).Addr())
	w.Cut()
	var child net.Listener
	err := testenv.ListenAgain(t, func() (err error) { child, err = net.Listen("tcp", w.Addr()); return err })
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = child.Close() })
	w.Heal(t)
	if conn, err := net.Dial("tcp", w.Addr()); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
}

func TestPostgresThroughAWire(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	pg.Exec(t, `create table n (n int)`)
	w := wire.New(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(pg.Port())))
	ctx := t.Context()
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(ctx, w.URL(t, pg.URL()))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	conn := connect()
	if _, err := conn.Exec(ctx, `insert into n values (1)`); err != nil {
		t.Error(err)
	}
	w.CutAnswers(t, 0)
	if _, err := conn.Exec(ctx, `insert into n values (2)`); err == nil {
		t.Error("the answer came")
	}
	conn.Close(ctx)
	w.Cut()
	if _, err := pgx.Connect(ctx, w.URL(t, pg.URL())); err == nil {
		t.Error("a connection was accepted")
	}
	w.Heal(t)
	conn = connect()
	defer conn.Close(ctx)
	if n := testenv.Value[int](t, pg, `select count(*) from n`); n != 2 {
		t.Errorf("%d rows", n)
	}
}
