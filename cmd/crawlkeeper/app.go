package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/internal/plain"
	"crawlkeeper/sql"
)

// app is what the subcommands share: the outside world and, opened when they are first asked for, configuration, Redis and
// Postgres. It is used by one goroutine.
type app struct {
	world
	args           []string
	stdout, stderr io.Writer
	flags          configFlags
	model          *kong.Application

	config *configs.Config
	client redis.UniversalClient
	store  *sql.Store
}

func newApp(w world) *app {
	return &app{world: w, args: w.Args, stdout: w.Stdout, stderr: w.Stderr}
}

// close ends the connections.
func (a *app) close() {
	if a.client != nil {
		_ = a.client.Close()
	}
	if a.store != nil {
		a.store.Close()
	}
}

// getenv is a variable of the environment that the program was called with.
func (a *app) getenv(name string) string {
	value := ""
	for _, variable := range a.Environ {
		if rest, ok := strings.CutPrefix(variable, name+"="); ok {
			value = rest
		}
	}
	return value
}

// Config is the configuration: file, then environment, then flags.
func (a *app) Config() (*configs.Config, error) {
	if a.config != nil {
		return a.config, nil
	}
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	a.config = c
	return c, nil
}

// Logger is the program's own log, on standard error.
func (a *app) Logger() (*slog.Logger, error) {
	c, err := a.Config()
	if err != nil {
		return nil, err
	}
	return slog.New(newLogHandler(a.stderr, c.Log, a.isTerminal(a.stderr), a.colours(a.stderr))), nil
}

// OpenRedis returns a client that connects when it is used.
func (a *app) OpenRedis() (redis.UniversalClient, error) {
	if a.client != nil {
		return a.client, nil
	}
	c, err := a.Config()
	if err != nil {
		return nil, err
	}
	a.client, err = openRedis(c.Redis)
	return a.client, err
}

// reachWithin bounds how long a server may take to answer at all.
const reachWithin = 5 * time.Second

// Redis returns a client of a Redis that answers; the error says what to do.
func (a *app) Redis(ctx context.Context) (redis.UniversalClient, error) {
	client, err := a.OpenRedis()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("reach Redis at %s: %w; is it running, and is redis.url (CRAWLKEEPER_REDIS_URL) right?", a.config.Redis.URL, err)
	}
	return client, nil
}

// OpenStore returns a store that connects when it is used.
func (a *app) OpenStore(ctx context.Context) (*sql.Store, error) {
	logger, err := a.Logger()
	if err != nil {
		return nil, err
	}
	return a.openStore(ctx, logger)
}

func (a *app) openStore(ctx context.Context, logger *slog.Logger) (*sql.Store, error) {
	if a.store != nil {
		return a.store, nil
	}
	c, err := a.Config()
	if err != nil {
		return nil, err
	}
	a.store, err = sql.Open(ctx, c.Postgres.URL.Reveal(), logger)
	return a.store, err
}

// Store returns a store of a Postgres that answers; the error says what to do.
func (a *app) Store(ctx context.Context) (*sql.Store, error) {
	store, err := a.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if err := store.Ping(ctx); err != nil {
		return nil, a.unreachable(err)
	}
	return store, nil
}

func (a *app) unreachable(err error) error {
	// What pgx says has several lines, and says the same of each address.
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		err = refused
	} else if network, ok := errors.AsType[*net.OpError](err); ok {
		err = network
	}
	return fmt.Errorf("reach Postgres at %s: %w; is it running, and is postgres.url (CRAWLKEEPER_POSTGRES_URL) right?", a.config.Postgres.URL, err)
}

// printJSON writes a value to standard output, on one line.
func (a *app) printJSON(value any) error {
	text, err := encodeJSON(value)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(text)
	return err
}

// encodeJSON is what every --json goes through.
func encodeJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(plain.JSONWriter(&b))
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return b.Bytes(), nil
}

// printTable writes a table to standard output.
func (a *app) printTable(t *table) error {
	_, err := io.WriteString(a.stdout, t.render(a.view()))
	return err
}

// printf writes to standard output.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
}
