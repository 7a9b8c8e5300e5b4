package sql

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// versionTable is our own, so that a goose of the user's own is not disturbed.
	versionTable = "crawlkeeper_goose"
	// migrationLock is the advisory lock under which one manager migrates while others wait: the letters "crawlkpr".
	migrationLock = 0x637261776c6b7072
	// lockTries, a second each, is how long a manager waits for another one that migrates.
	lockTries = 120
)

// Migrate brings the tables of our own up to date and creates the shared ones where they do not exist. It returns the names of
// the migrations that were applied: none where all was up to date, and then nothing was changed. Several may run at once.
// A lock that is held by others for more than five seconds is an error, so that nobody queues behind us.
func Migrate(ctx context.Context, url string, logger *slog.Logger) (applied []string, err error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	pool := stdlib.OpenDB(*config.ConnConfig, stdlib.OptionAfterConnect(limitLockWait))
	defer func() { err = errors.Join(err, pool.Close()) }()

	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, lockTries))
	if err != nil {
		return nil, fmt.Errorf("make migration lock: %w", err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, files,
		goose.WithTableName(versionTable), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	for _, r := range results {
		applied = append(applied, path.Base(r.Source.Path))
		logger.Info("migration applied", "name", path.Base(r.Source.Path), "took", r.Duration)
	}
	if err != nil {
		return applied, fmt.Errorf("migrate postgres: %w", err)
	}
	return applied, nil
}

func limitLockWait(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET lock_timeout = '5s'")
	return err
}

// latestMigration is the number of the newest migration in this program.
func latestMigration() (int64, error) {
	entries, err := migrations.ReadDir("migrations")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	var latest int64
	for _, e := range entries {
		version, err := goose.NumericComponent(e.Name())
		if err != nil {
			return 0, fmt.Errorf("read number of migration %s: %w", e.Name(), err)
		}
		latest = max(latest, version)
	}
	return latest, nil
}
