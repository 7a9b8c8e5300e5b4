package sql

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"crawlkeeper/sql/internal/db"
)

// RightMissing is something that the manager does and that this database refuses.
type RightMissing struct {
	Table  string
	Action string // SELECT, INSERT, UPDATE or DELETE
	Reason string // in the server's words
	Fix    string // what to do about it
}

// attempt is one thing that the manager does to a table.
type attempt struct {
	table, action string
	do            func(*db.Queries, context.Context) error
}

// Pruned says of which tables old rows are removed.
type Pruned struct {
	Processes, Runs, Logs bool
}

func (p Pruned) attempts() []attempt {
	list := slices.Clone(attempts)
	if p.Processes {
		list = append(list, attempt{"crawl_processes", "DELETE", (*db.Queries).TryDeleteProcesses})
	}
	if p.Runs {
		list = append(list, attempt{"crawl_runs", "DELETE", (*db.Queries).TryDeleteRuns}, attempt{"crawl_run_facts", "DELETE", (*db.Queries).TryDeleteFacts})
	}
	if p.Logs {
		list = append(list, attempt{"crawl_logs", "DELETE", (*db.Queries).TryDeleteLogs})
	}
	return list
}

var attempts = []attempt{
	{"sources", "SELECT", (*db.Queries).TryReadSources},
	{"sources", "UPDATE", (*db.Queries).TryUpdateSources},
	{"crawl_runs", "SELECT", (*db.Queries).TryReadRuns},
	{"crawl_runs", "UPDATE", (*db.Queries).TryUpdateRuns},
	{"crawl_logs", "SELECT", (*db.Queries).TryReadLogs},
	{"crawl_logs", "INSERT", tryInsertLog},
	{"crawl_source_options", "SELECT", (*db.Queries).TryReadOptions},
	{"crawl_source_options", "INSERT", (*db.Queries).TryInsertOptions},
	{"crawl_source_options", "UPDATE", (*db.Queries).TryUpdateOptions},
	{"crawl_source_options", "DELETE", (*db.Queries).TryDeleteOptions},
	{"crawl_processes", "SELECT", (*db.Queries).TryReadProcesses},
	{"crawl_processes", "INSERT", (*db.Queries).TryInsertProcesses},
	{"crawl_processes", "UPDATE", (*db.Queries).TryUpdateProcesses},
	{"crawl_run_facts", "SELECT", (*db.Queries).TryReadFacts},
	{"crawl_leaks", "SELECT", (*db.Queries).TryReadLeaks},
	{"crawl_leaks", "INSERT", (*db.Queries).TryInsertLeaks},
	{"crawl_leaks", "DELETE", (*db.Queries).TryDeleteLeaks},
	{"crawl_deleted_sources", "SELECT", (*db.Queries).TryReadDeleted},
	{"crawl_deleted_sources", "INSERT", (*db.Queries).TryInsertDeleted},
	{"crawl_deleted_sources", "UPDATE", (*db.Queries).TryUpdateDeleted},
	{"crawl_deleted_sources", "DELETE", (*db.Queries).TryDeleteDeleted},
}

// Rights does what the manager does, in one transaction that is rolled back, and returns what was refused.
// The error is one of the connection.
func (s *Store) Rights(ctx context.Context, pruned Pruned) ([]RightMissing, error) {
	server, err := s.q.Server(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask postgres what it is: %w", err)
	}
	var missing []RightMissing
	err = s.rolledBack(ctx, func(tx pgx.Tx) error {
		for _, a := range pruned.attempts() {
			err := trySavepoint(ctx, tx, a)
			pgErr, isRefused := refusal(err)
			switch {
			case err == nil:
			case isRefused && pgErr.Code == codeNotNull: // it may insert; that something misses its default is Check's matter
			case isRefused:
				missing = append(missing, RightMissing{a.table, a.action, pgErr.Message, fix(a, pgErr, server.Role)})
			default:
				return fmt.Errorf("try %s on %s: %w", a.action, a.table, err)
			}
		}
		return nil
	})
	return missing, err
}

// trySavepoint keeps the transaction usable when an attempt is refused.
func trySavepoint(ctx context.Context, tx pgx.Tx, a attempt) error {
	return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return a.do(db.New(savepoint), ctx) })
}

// tryInsertLog inserts a row without an id.
func tryInsertLog(q *db.Queries, ctx context.Context) error {
	_, err := q.TryLog(ctx)
	return err
}

func fix(a attempt, err *pgconn.PgError, role string) string {
	grant := fmt.Sprintf("GRANT %s ON %s TO %s", a.action, a.table, pgx.Identifier{role}.Sanitize())
	switch err.Code {
	case codeNoRight:
		if a.action == "INSERT" && a.table == "crawl_logs" {
			return grant + ", and USAGE on the sequence of its id"
		}
		return grant
	case codeNoTable:
		return "run `crawlkeeper migrate`"
	case codeNoColumn:
		return "add the column, or put a view of this name in front of the table"
	case codeLockTimeout:
		return "somebody holds a lock on it: try again, or look into pg_locks"
	case codeReadOnly:
		return "connect to the primary server"
	}
	return "see the reason; the manager cannot do this"
}
