package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTries   = 3 // with another port each time
	startTimeout = 30 * time.Second
	pollEvery    = 5 * time.Millisecond
)

// PostgresOptions say how a Postgres server is made.
type PostgresOptions struct {
	// Cache keeps the freshly made cluster in the temporary folder of this machine, so that the next server is a copy of
	// it. Tests want that; the demo leaves nothing behind.
	Cache bool
	// Dir is the folder that it is made in; "" is the Env's.
	Dir string
}

// Postgres is a private Postgres server. Its superuser is postgres, without a password.
type Postgres struct {
	env  *Env
	bin  string
	dir  string // the cluster and its log live here; it belongs to user
	user *syscall.Credential
	port *port

	mu      sync.Mutex
	process *running // guarded by mu; nil while stopped
}

// StartPostgres makes a cluster and starts a server on it. It is stopped by Env.Close.
func (e *Env) StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	bin, missing := findPostgres()
	if missing != nil {
		return nil, missing
	}
	user, err := postgresUser()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(cmp.Or(opts.Dir, e.dir), "postgres-*")
	if err != nil {
		return nil, fmt.Errorf("make folder for postgres: %w", err)
	}
	if err := giveTo(dir, user); err != nil {
		return nil, err
	}
	p := &Postgres{env: e, bin: bin, dir: dir, user: user}
	if err := p.makeCluster(ctx, opts.Cache); err != nil {
		return nil, err
	}
	if err := p.startOnSomePort(ctx); err != nil {
		return nil, err
	}
	return p, e.onClose(p.Close)
}

// URL is the connection string of a database on this server.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.port.addr(), database)
}

// Port is the TCP port on 127.0.0.1.
func (p *Postgres) Port() int { return p.port.number }

// Start starts the stopped server again, on the same port with the same data, and waits until it takes connections.
func (p *Postgres) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start(ctx)
}

// Stop ends the server without waiting for its clients, who lose their connections. Committed data is kept.
func (p *Postgres) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stop(ctx, syscall.SIGINT)
}

// Kill ends the server and all its backends by SIGKILL. What was committed is kept where synchronous_commit is on: the
// kernel has it.
func (p *Postgres) Kill(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return nil
	}
	backends := children(p.process.process.Pid)
	err := p.process.stop(ctx, syscall.SIGKILL)
	for _, pid := range backends { // they would notice by themselves, but hold shared memory until then
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.process = nil
	return err
}

// Pause freezes the server and all its backends: connections stay open and nothing answers.
func (p *Postgres) Pause() error { return p.signalAll(syscall.SIGSTOP) }

// Continue ends a Pause.
func (p *Postgres) Continue() error { return p.signalAll(syscall.SIGCONT) }

// Exec runs one statement on a database.
func (p *Postgres) Exec(ctx context.Context, database, statement string) error {
	conn, err := pgx.Connect(ctx, p.URL(database))
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("execute %q: %w", statement, err)
	}
	return nil
}

func (p *Postgres) startOnSomePort(ctx context.Context) error {
	var errs []error
	for range startTries {
		port, err := reservePort()
		if err != nil {
			return err
		}
		p.port = port
		if err = p.Start(ctx); err == nil {
			return nil
		}
		port.release()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *Postgres) start(ctx context.Context) error {
	if p.process != nil {
		return nil
	}
	process, err := p.env.fork.start(command{
		argv: []string{
			filepath.Join(p.bin, "postgres"), "-D", p.data(), "-p", strconv.Itoa(p.port.number),
			"-k", "", // no socket: where the folder lies deep, its path would be too long
			"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=400",
			// Speed before safety: this data is thrown away.
			"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off", "-c", "wal_level=minimal",
			"-c", "max_wal_senders=0", "-c", "shared_buffers=32MB", "-c", "autovacuum=off", "-c", "jit=off",
			// A server that is killed leaves no segment in /dev/shm.
			"-c", "dynamic_shared_memory_type=mmap",
			"-c", "timezone=UTC", "-c", "log_timezone=UTC", "-c", "lc_messages=C",
		},
		dir: p.dir, log: filepath.Join(p.dir, "log"), user: p.user,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := waitReady(ctx, process, p.ping); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return errors.Join(fmt.Errorf("start postgres: %w", err), process.stop(stopCtx, syscall.SIGQUIT))
	}
	p.process = process
	return nil
}

// ping asks for a connection; a server that still recovers refuses it.
func (p *Postgres) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (p *Postgres) stop(ctx context.Context, sig syscall.Signal) error {
	if p.process == nil {
		return nil
	}
	signalTree(p.process.process.Pid, syscall.SIGCONT)
	err := p.process.stop(ctx, sig)
	p.process = nil
	return err
}

// Close ends the server for good and gives its port back.
func (p *Postgres) Close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.port.release()
	return p.stop(ctx, syscall.SIGQUIT)
}

func (p *Postgres) signalAll(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return errors.New("signal postgres: it is stopped")
	}
	signalTree(p.process.process.Pid, sig)
	return nil
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// waitReady polls until ping succeeds, the process ends, or ctx does.
func waitReady(ctx context.Context, process *running, ping func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-process.exited:
			return process.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait until it answers: %w (last: %w)", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
