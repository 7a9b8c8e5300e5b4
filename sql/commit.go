package sql

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"crawlkeeper/sql/internal/db"
)

// lockWait is how long a write waits for a lock of somebody else: longer than a statement of a crawler takes, short enough that
// a transaction which somebody left open holds up nothing but what it has locked.
const lockWait = "250ms"

// writer is what the journal needs of the database.
type writer interface {
	// check learns what the tables look like. It is called before the first write, and again when the tables did not fit.
	check(ctx context.Context) (Shape, error)
	// write writes a group in one transaction and returns how many runs of each source were marked.
	write(ctx context.Context, shape Shape, g group) (marked map[string]int, err error)
}

func (s *Store) check(ctx context.Context) (Shape, error) { return s.Check(ctx) }

// write sends a handful of statements in one round trip. They are one transaction, because a batch is one. A connection that is
// new to some of them prepares these before that transaction, and waits for whoever has locked their table: there the transaction
// begins, and with it the limit to such waits, in round trips of their own.
func (s *Store) write(ctx context.Context, shape Shape, g group) (map[string]int, error) {
	var batch pgx.Batch
	marked, err := queueGroup(ctx, &batch, shape, g)
	if err != nil {
		return nil, err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if prepared(conn).knows(&batch) {
		err = conn.SendBatch(ctx, &batch).Close()
	} else {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if err := db.New(tx).LimitLockWait(ctx, lockWait); err != nil {
				return err
			}
			return tx.SendBatch(ctx, &batch).Close()
		})
	}
	if err != nil {
		clear(prepared(conn)) // what fails may be prepared anew
		return nil, err
	}
	prepared(conn).add(&batch)
	return marked, nil
}

// statementSet holds the statements that a connection has prepared, as far as write has sent them.
type statementSet map[string]bool

// prepared is the set of a connection. Who has acquired the connection uses it.
func prepared(conn *pgxpool.Conn) statementSet {
	const key = "crawlkeeper: statements of the journal"
	data := conn.Conn().PgConn().CustomData()
	set, ok := data[key].(statementSet)
	if !ok {
		set = make(statementSet)
		data[key] = set
	}
	return set
}

func (s statementSet) knows(batch *pgx.Batch) bool {
	for _, q := range batch.QueuedQueries {
		if !s[q.SQL] {
			return false
		}
	}
	return true
}

func (s statementSet) add(batch *pgx.Batch) {
	for _, q := range batch.QueuedQueries {
		s[q.SQL] = true
	}
}

// queueGroup puts the statements of a group into a batch. The map is filled when the batch has run.
func queueGroup(ctx context.Context, batch *pgx.Batch, shape Shape, g group) (marked map[string]int, err error) {
	q := db.New(queuer{batch})
	err = q.LimitLockWait(ctx, lockWait)
	if len(g.processes) > 0 {
		err = errors.Join(err, q.UpsertProcesses(ctx, processColumns(values(g.processes))))
	}
	if len(g.marks) > 0 {
		marked = make(map[string]int)
		err = errors.Join(err, q.MarkRuns(ctx, markColumns(values(g.marks), shape.ErrorLimit)))
		countRows(batch, marked)
	}
	if c := sourceColumns(values(g.changes)); len(c.Codes) > 0 {
		err = errors.Join(err, q.ChangeSources(ctx, c))
	}
	if c := optionColumns(values(g.changes)); len(c.Codes) > 0 {
		err = errors.Join(err,
			q.AddOptions(ctx, db.AddOptionsParams{
				Codes: c.Codes, PauseReasons: c.PauseReasons, PausedBys: c.PausedBys, Wanteds: c.Wanteds,
				PausedUntils: c.PausedUntils, RestLevels: c.RestLevels, RestSinces: c.RestSinces,
			}),
			q.UpdateOptions(ctx, c))
	}
	if len(g.logs) > 0 {
		err = errors.Join(err, queueLogs(ctx, q, shape, values(g.logs)))
	}
	return marked, err
}

func queueLogs(ctx context.Context, q *db.Queries, shape Shape, lines []LogLine) error {
	columns := logColumns(lines, shape.MessageLimit)
	switch shape.LogIDs {
	case LogIDsGiven:
		return q.InsertLogs(ctx, columns)
	case LogIDsOurs:
		return q.InsertLogsWithIDs(ctx, withIDs(columns))
	}
	return nil // the table takes no rows of ours; the journal has said so
}

// countRows counts the sources that the last queued statement returns.
func countRows(batch *pgx.Batch, counts map[string]int) {
	batch.QueuedQueries[len(batch.QueuedQueries)-1].Query(func(rows pgx.Rows) error {
		var source string
		_, err := pgx.ForEachRow(rows, []any{&source}, func() error {
			counts[source]++
			return nil
		})
		return err
	})
}

// queuer makes the generated statements go into a batch instead of to the server.
type queuer struct {
	batch *pgx.Batch
}

var errOnlyExec = errors.New("only statements without a result can be queued")

func (q queuer) Exec(_ context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	q.batch.Queue(statement, args...)
	return pgconn.CommandTag{}, nil
}

func (q queuer) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errOnlyExec }

func (q queuer) QueryRow(context.Context, string, ...any) pgx.Row { return noRow{} }

type noRow struct{}

func (noRow) Scan(...any) error { return errOnlyExec }
