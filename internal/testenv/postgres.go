package testenv

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"crawlkeeper/internal/testenv/servers"
)

// serverTimeout bounds what a test does to a server.
const serverTimeout = 60 * time.Second

// PG is a private, empty database of one test.
type PG struct {
	server *servers.Postgres
	name   string
	own    bool // the server is this test's alone
}

var databases atomic.Int64 // how many were made, for their names

// Postgres makes an empty database on the server that all tests of this process share.
func Postgres(t testing.TB) *PG {
	t.Helper()
	return newDatabase(t, sharedPostgres(t), "template1", false)
}

// PostgresFrom makes a database that is a copy of one that prepare has filled. That happens once in a test process for each name;
// prepare must close its connections.
func PostgresFrom(t testing.TB, name string, prepare func(ctx context.Context, url string) error) *PG {
	t.Helper()
	server := sharedPostgres(t)
	return newDatabase(t, server, templateNamed(name).make(t, server, prepare), false)
}

// OwnPostgres makes an empty database on a server of its own, which the test may stop, start and pause.
func OwnPostgres(t testing.TB) *PG {
	t.Helper()
	return OwnPostgresIn(t, "")
}

// OwnPostgresIn is OwnPostgres with its data in this folder.
func OwnPostgresIn(t testing.TB, dir string) *PG {
	t.Helper()
	server, err := environment(t).StartPostgres(t.Context(), servers.PostgresOptions{Cache: true, Dir: dir})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return newDatabase(t, server, "template1", true)
}

func sharedPostgres(t testing.TB) *servers.Postgres {
	t.Helper()
	env := environment(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.postgres == nil {
		server, err := env.StartPostgres(context.Background(), servers.PostgresOptions{Cache: true})
		if err != nil {
			t.Fatalf("testenv: %v", err)
		}
		shared.postgres = server
	}
	return shared.postgres
}

func newDatabase(t testing.TB, server *servers.Postgres, from string, own bool) *PG {
	t.Helper()
	p := &PG{server: server, name: fmt.Sprintf("test_%d", databases.Add(1)), own: own}
	p.admin(t, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", p.name, from))
	if !own {
		t.Cleanup(func() { p.admin(t, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", p.name)) })
	}
	return p
}

// admin runs a statement outside of the test's database.
func (p *PG) admin(t testing.TB, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	if err := p.server.Exec(ctx, "postgres", statement); err != nil {
		t.Fatalf("testenv: %v", err)
	}
}

// URL is the connection string of the test's database.
func (p *PG) URL() string { return p.server.URL(p.name) }

// Port is the server's TCP port on 127.0.0.1.
func (p *PG) Port() int { return p.server.Port() }

// Conn opens a connection that is closed at the end of the test.
func (p *PG) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatalf("testenv: connect to postgres: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs a statement, or several without arguments, on a connection of its own.
func (p *PG) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	p.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	})
}

// Value reads one value of one row, on a connection of its own.
func Value[T any](t testing.TB, p *PG, sql string, args ...any) T {
	t.Helper()
	var value T
	p.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql, args...).Scan(&value)
	})
	return value
}

func (p *PG) with(t testing.TB, f func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		t.Fatalf("testenv: connect to postgres: %v", err)
	}
	defer conn.Close(ctx)
	if err := f(ctx, conn); err != nil {
		t.Fatalf("testenv: %v", err)
	}
}

// Stop ends the server: clients lose their connections and get no new ones. Only for [OwnPostgres], as what follows.
func (p *PG) Stop(t testing.TB) { t.Helper(); p.control(t, p.server.Stop) }

// Kill ends the server and its backends by SIGKILL.
func (p *PG) Kill(t testing.TB) { t.Helper(); p.control(t, p.server.Kill) }

// Start starts it again on the same port, with its data.
func (p *PG) Start(t testing.TB) { t.Helper(); p.control(t, p.server.Start) }

// Restart stops and starts it.
func (p *PG) Restart(t testing.TB) { t.Helper(); p.Stop(t); p.Start(t) }

// Pause freezes it: connections stay open and nothing answers.
func (p *PG) Pause(t testing.TB) { t.Helper(); p.control(t, ignoreContext(p.server.Pause)) }

// Continue ends a Pause.
func (p *PG) Continue(t testing.TB) { t.Helper(); p.control(t, ignoreContext(p.server.Continue)) }

func (p *PG) control(t testing.TB, f func(context.Context) error) {
	t.Helper()
	if !p.own {
		t.Fatal("testenv: this Postgres is shared with other tests: use OwnPostgres")
	}
	control(t, f)
}

// control does something to a server within a bounded time, also while the test is ending.
func control(t testing.TB, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Fatalf("testenv: %v", err)
	}
}

func ignoreContext(f func() error) func(context.Context) error {
	return func(context.Context) error { return f() }
}

// template is a database that others are copied from.
type template struct {
	name string
	once sync.Once
	err  error
}

func templateNamed(name string) *template {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.template == nil {
		shared.template = make(map[string]*template)
	}
	if shared.template[name] == nil {
		shared.template[name] = &template{name: fmt.Sprintf("template_%d", len(shared.template)+2)}
	}
	return shared.template[name]
}

func (d *template) make(t testing.TB, server *servers.Postgres, prepare func(context.Context, string) error) string {
	t.Helper()
	d.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
		defer cancel()
		if d.err = server.Exec(ctx, "postgres", "CREATE DATABASE "+d.name); d.err == nil {
			d.err = prepare(ctx, server.URL(d.name))
		}
	})
	if d.err != nil {
		t.Fatalf("testenv: prepare database: %v", d.err)
	}
	return d.name
}
