package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"crawlkeeper/sql/internal/db"
)

// LogIDs says who makes the ids of crawl_logs.
type LogIDs string

// Who makes the ids of crawl_logs.
const (
	LogIDsGiven LogIDs = "default" // the database
	LogIDsOurs  LogIDs = "uuid"    // we: the column is a uuid or a text without a default
	LogIDsNone  LogIDs = "none"    // nobody can: no log rows of ours, LogProblem says why
)

// Shape is what the database looks like, as far as the manager cares.
type Shape struct {
	ServerVersion int    // 150018 is 15.18
	Encoding      string // of the database
	Standby       bool   // it cannot be written to
	Role          string // who we are there
	Schema        string // where our tables are created

	Migration, Latest int64 // applied, and the newest one that this program has

	LogIDs          LogIDs
	LogProblem      string   // why no log rows of ours can be written; "" where they can
	MessageLimit    int      // most characters of crawl_logs.message, 0 = any
	ErrorLimit      int      // most characters of crawl_runs.error, 0 = any
	MissingTables   []string // that the manager relies on
	MissingColumns  []string // of tables that are there ("sources.code"), likewise
	MissingDefaults []string // ids and times that do not fill themselves: what writes there must give them
}

// reliedOn are the columns that the contract names.
var reliedOn = map[string][]string{
	"sources": {"code", "collector", "adapter", "enabled", "interval_seconds", "backfill_hours", "history_target", "history_position",
		"history_done", "consecutive_failures", "paused_until"},
	"crawl_runs": {"id", "source_code", "status", "trigger", "started_at", "finished_at", "error"},
	"crawl_logs": {"id", "source_code", "run_id", "level", "message", "created_at"},
}

// filled are the columns of the old shape that have defaults there.
var filled = map[string][]string{"crawl_runs": {"id", "started_at"}, "crawl_logs": {"id", "created_at"}}

// Check looks at the tables. The error is [ErrNotMigrated] where ours are missing or older than this program; the shape is
// filled in as far as it could be read then. It inserts one row into crawl_logs in a transaction that it rolls back.
func (s *Store) Check(ctx context.Context) (Shape, error) {
	var shape Shape
	server, err := s.q.Server(ctx)
	if err != nil {
		return shape, fmt.Errorf("ask postgres what it is: %w", err)
	}
	shape.ServerVersion, shape.Encoding, shape.Standby = int(server.Version), server.Encoding, server.Standby
	shape.Role, shape.Schema = server.Role, server.Schema
	if err := s.readMigration(ctx, &shape, server.Versioned); err != nil {
		return shape, err
	}
	columns, err := s.q.Columns(ctx)
	if err != nil {
		return shape, fmt.Errorf("read columns of shared tables: %w", err)
	}
	shape.readColumns(columns)
	if shape.Migration < shape.Latest {
		return shape, ErrNotMigrated
	}
	return shape, s.tryLog(ctx, &shape, columns)
}

func (s *Store) readMigration(ctx context.Context, shape *Shape, versioned bool) (err error) {
	if shape.Latest, err = latestMigration(); err != nil || !versioned {
		return err
	}
	// Not among the generated queries: goose makes this table.
	const query = "SELECT coalesce(max(version_id), 0) FROM " + versionTable + " WHERE is_applied"
	if err := s.pool.QueryRow(ctx, query).Scan(&shape.Migration); err != nil {
		return fmt.Errorf("read version of migrations: %w", err)
	}
	return nil
}

func (shape *Shape) readColumns(columns []db.ColumnsRow) {
	there := make(map[string]bool)
	for _, c := range columns {
		name := c.Relation + "." + c.Name
		there[name], there[c.Relation] = true, true
		switch name {
		case "crawl_logs.message":
			shape.MessageLimit = int(c.MaxLength)
		case "crawl_runs.error":
			shape.ErrorLimit = int(c.MaxLength)
		}
		if isTable(c.Kind) && !c.Filled && slices.Contains(filled[c.Relation], c.Name) {
			shape.MissingDefaults = append(shape.MissingDefaults, name)
		}
	}
	for table, names := range reliedOn {
		if !there[table] {
			shape.MissingTables = append(shape.MissingTables, table)
			continue
		}
		for _, name := range names {
			if !there[table+"."+name] {
				shape.MissingColumns = append(shape.MissingColumns, table+"."+name)
			}
		}
	}
	slices.Sort(shape.MissingTables)
	slices.Sort(shape.MissingColumns)
}

// isTable tells tables from views, whose defaults are those of what is below them.
func isTable(kind string) bool { return kind == "r" || kind == "p" }

// tryLog finds out by an insert who makes the ids of crawl_logs: the catalog does not tell for a view or a trigger.
func (s *Store) tryLog(ctx context.Context, shape *Shape, columns []db.ColumnsRow) error {
	id, err := s.insertAndRollBack(ctx)
	refused, isRefused := refusal(err)
	switch {
	case err == nil && id != "":
		shape.LogIDs = LogIDsGiven
	case err == nil || isRefused && refused.Code == codeNotNull && refused.ColumnName == "id":
		shape.LogIDs, shape.LogProblem = idsByType(columns)
	case isRefused && refused.Code == codeNotNull:
		shape.LogIDs = LogIDsNone
		shape.LogProblem = fmt.Sprintf("crawl_logs.%s must not be null and has no default", refused.ColumnName)
	case isRefused:
		// No right, no source to name, a lock: what the catalog says has to do. Rights are another check's matter.
		shape.LogIDs, shape.LogProblem = idsByCatalog(columns)
	default:
		return fmt.Errorf("try a row of crawl_logs: %w", err)
	}
	return nil
}

func (s *Store) insertAndRollBack(ctx context.Context) (id string, err error) {
	err = s.rolledBack(ctx, func(tx pgx.Tx) error {
		id, err = db.New(tx).TryLog(ctx)
		return err
	})
	return id, err
}

// rolledBack runs f in a transaction that never takes effect and waits for locks only a short time.
func (s *Store) rolledBack(ctx context.Context, f func(pgx.Tx) error) (err error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() {
		if e := tx.Rollback(ctx); e != nil && !errors.Is(e, pgx.ErrTxClosed) && err == nil {
			err = fmt.Errorf("roll back: %w", e)
		}
	}()
	if err := db.New(tx).LimitLockWait(ctx, lockWait); err != nil {
		return fmt.Errorf("limit wait for locks: %w", err)
	}
	return f(tx)
}

// idsByType is who can make ids where the database does not.
func idsByType(columns []db.ColumnsRow) (LogIDs, string) {
	id := logID(columns)
	switch {
	case id.Type == "uuid" || id.Type == "text" || id.Type == "character varying" && (id.MaxLength == 0 || id.MaxLength >= 36):
		return LogIDsOurs, ""
	case id.Name == "":
		return LogIDsNone, "crawl_logs has no column id"
	}
	return LogIDsNone, fmt.Sprintf("crawl_logs.id is of type %s and has no default", id.Type)
}

func idsByCatalog(columns []db.ColumnsRow) (LogIDs, string) {
	if id := logID(columns); id.Filled || id.Kind != "" && !isTable(id.Kind) {
		return LogIDsGiven, ""
	}
	return idsByType(columns)
}

func logID(columns []db.ColumnsRow) db.ColumnsRow {
	i := slices.IndexFunc(columns, func(c db.ColumnsRow) bool { return c.Relation == "crawl_logs" && c.Name == "id" })
	if i < 0 {
		return db.ColumnsRow{}
	}
	return columns[i]
}

// truncate cuts a text to a column's limit of characters; 0 is no limit.
func truncate(text string, limit int) string {
	if limit <= 0 || len(text) <= limit {
		return text
	}
	n := 0
	for i := range text {
		if n == limit {
			return strings.TrimSpace(text[:i])
		}
		n++
	}
	return text
}
