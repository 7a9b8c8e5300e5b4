package sql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"crawlkeeper/sql/internal/db"
)

// ErrNotMigrated says that the tables of our own are missing or older than this program.
var ErrNotMigrated = errors.New("the database is not migrated: run `crawlkeeper migrate`")

// connectTimeout is for one host, where the URL sets none: a network that swallows packets must not hold a poll for minutes.
const connectTimeout = 5 * time.Second

// closeLimit is for the goodbyes to the server: one that is frozen would hold them up for 15 s.
const closeLimit = time.Second

// pingAfter is how long a connection was idle before it is tried with a ping. The poll's, which is used every second, is never.
const pingAfter = 3 * time.Second

// idleLimit is how long a connection is kept that nobody uses, and idleLook how often that is looked at. At rest one is enough: each
// other is a process of the server, which also counts what was done on it late, while its client sleeps.
const (
	idleLimit = 1500 * time.Millisecond
	idleLook  = time.Second
)

// Store reads from the database, and writes for the command line. It is safe for concurrent use. Callers give each call a context
// with a deadline: a server that is frozen answers nothing.
type Store struct {
	pool *pgxpool.Pool
	q    *db.Queries
	log  *slog.Logger

	mu     sync.Mutex
	warned string // guarded by mu: the duplicate codes that were last reported
}

// Open makes a store. It does not connect: that happens with the first use, so that a database may be away at the start.
// The URL is what libpq takes; pool_max_conns and the other settings of pgxpool may stand in it.
func Open(ctx context.Context, url string, logger *slog.Logger) (*Store, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open postgres pool: %w", err)
	}
	return &Store{pool: pool, q: db.New(pool), log: logger}, nil
}

// Close ends all connections, after what uses them has ended. Where the server does not answer for a second they are left behind,
// and end in the background within 15 s.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.pool.Close()
	}()
	timer := time.NewTimer(closeLimit)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		s.log.Warn("postgres does not answer, its connections were left behind")
	}
}

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ping postgres: %w", err)
	}
	return nil
}

// parse reads a URL and sets what all our sessions have in common. Errors do not show the password.
func parse(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse postgres url: %w", err)
	}
	params := config.ConnConfig.RuntimeParams
	params["timezone"] = "UTC"
	params["datestyle"] = "ISO"
	if params["application_name"] == "" {
		params["application_name"] = "crawlkeeper"
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !strings.Contains(url, "pool_max_conn_idle_time") {
		config.MaxConnIdleTime = idleLimit
	}
	if !strings.Contains(url, "pool_health_check_period") {
		config.HealthCheckPeriod = idleLook
	}
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingAfter }
	return config, nil
}
