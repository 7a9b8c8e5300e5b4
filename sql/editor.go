package sql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"crawlkeeper/sql/internal/db"
)

// editor collects the statements of edits. Their text depends on which columns were given; names of columns come from this file
// only, values are always parameters.
type editor struct {
	collector string
	defaults  []column // for new rows, where the database has none
	batch     pgx.Batch
	changes   []change // one for each statement of the batch
}

// change is what one statement does to a source.
type change struct {
	code   string
	insert bool
}

// column is a value to write, with the type that its parameter has.
type column struct {
	name, cast string
	value      any
}

// given adds a column to a list if it was given.
func given[T any](list []column, name, cast string, o Opt[T]) []column {
	if !o.Given() {
		return list
	}
	c := column{name: name, cast: cast}
	if value, ok := o.Get(); ok {
		c.value = value
	}
	return append(list, c)
}

func (e SourceEdit) sourceColumns() (list []column) {
	list = given(list, "adapter", "text", e.Adapter)
	list = given(list, "enabled", "boolean", e.Enabled)
	list = given(list, "interval_seconds", "bigint", e.IntervalSeconds)
	list = given(list, "backfill_hours", "bigint", e.BackfillHours)
	list = given(list, "history_target", "text::timestamptz", e.HistoryTarget)
	list = given(list, "history_position", "text::timestamptz", e.HistoryPosition)
	list = given(list, "history_done", "boolean", e.HistoryDone)
	list = given(list, "consecutive_failures", "bigint", e.ConsecutiveFailures)
	return given(list, "paused_until", "timestamptz", e.PausedUntil)
}

func (e SourceEdit) optionColumns() (list []column) {
	list = given(list, "schedule", "text", e.Schedule)
	list = given(list, "timezone", "text", e.Timezone)
	list = given(list, "jitter_seconds", "double precision", inSeconds(e.Jitter))
	list = given(list, "payload", "jsonb", e.Payload)
	list = given(list, "pause_reason", "text", e.PauseReason)
	list = given(list, "paused_by", "text", e.PausedBy)
	list = given(list, "paused_until", "timestamptz", e.PausedUntil)
	list = given(list, "wanted", "text", e.Wanted)
	list = given(list, "backfill_started_at", "timestamptz", e.BackfillStartedAt)
	list = given(list, "backfill_target", "text", e.BackfillTarget)
	return given(list, "backfill_from", "text", e.BackfillFrom)
}

func inSeconds(o Opt[time.Duration]) Opt[float64] {
	if d, ok := o.Get(); ok {
		return Some(d.Seconds())
	}
	return Opt[float64]{given: o.given}
}

// missingDefaults are the old system's defaults for columns that do not fill themselves. A view's columns are left to what is below.
func missingDefaults(columns []db.ColumnsRow) (list []column) {
	old := map[string]column{
		"enabled":              {"enabled", "boolean", true},
		"interval_seconds":     {"interval_seconds", "bigint", 300},
		"backfill_hours":       {"backfill_hours", "bigint", 24},
		"history_done":         {"history_done", "boolean", false},
		"consecutive_failures": {"consecutive_failures", "bigint", 0},
	}
	for _, c := range columns {
		if d, ok := old[c.Name]; ok && c.Relation == "sources" && isTable(c.Kind) && !c.Filled {
			list = append(list, d)
		}
	}
	return list
}

func (e *editor) insert(edit SourceEdit) {
	columns := append([]column{{"code", "text", edit.Code}, {"collector", "text", e.collector}}, edit.sourceColumns()...)
	for _, d := range e.defaults {
		if !named(columns, d.name) {
			columns = append(columns, d)
		}
	}
	e.queue(change{edit.Code, true}, fmt.Sprintf("INSERT INTO sources (%s) VALUES (%s)",
		join(columns, func(c column, _ int) string { return c.name }), join(columns, column.parameter)), columns)
	e.options(edit)
}

func (e *editor) update(edit SourceEdit) {
	if columns := edit.sourceColumns(); columns != nil {
		all := append(columns, column{"code", "text", edit.Code}, column{"collector", "text", e.collector})
		e.queue(change{code: edit.Code}, fmt.Sprintf(
			"UPDATE sources s SET %s WHERE s.code::text = $%d::text AND s.collector::text = $%d::text AND (%s)",
			join(columns, func(c column, i int) string { return c.name + " = " + c.parameter(i) }), len(all)-1, len(all),
			strings.Join(each(columns, func(c column, i int) string {
				return "s." + c.name + " IS DISTINCT FROM " + c.parameter(i)
			}), " OR ")), all)
	}
	e.options(edit)
}

func (e *editor) options(edit SourceEdit) {
	columns := edit.optionColumns()
	if columns == nil {
		return
	}
	all := append([]column{{"code", "text", edit.Code}}, columns...)
	e.queue(change{code: edit.Code}, fmt.Sprintf(
		"INSERT INTO crawl_source_options AS o (%s) VALUES (%s) ON CONFLICT (code) DO UPDATE SET %s WHERE %s",
		join(all, func(c column, _ int) string { return c.name }), join(all, column.parameter),
		join(columns, func(c column, _ int) string { return c.name + " = excluded." + c.name }),
		strings.Join(each(columns, func(c column, _ int) string {
			return "o." + c.name + " IS DISTINCT FROM excluded." + c.name
		}), " OR ")), all)
	if edit.PausedUntil.Given() { // whoever does that ends the rest
		e.queue(change{code: edit.Code}, `UPDATE crawl_source_options SET rest_level = NULL, rest_since = now()
			WHERE code = $1::text AND rest_level IS NOT NULL`, all[:1])
	}
	if (edit.PauseReason.Given() || edit.PausedBy.Given()) && !edit.PausedUntil.Given() { // they speak of the pause that there is
		e.queue(change{code: edit.Code}, `UPDATE crawl_source_options o SET paused_until = s.paused_until FROM sources s
			WHERE o.code = $1::text AND s.code::text = o.code AND o.paused_until IS DISTINCT FROM s.paused_until::timestamptz`, all[:1])
	}
}

func (e *editor) queue(c change, statement string, columns []column) {
	args := make([]any, len(columns))
	for i, col := range columns {
		args[i] = col.value
	}
	e.batch.Queue(statement, args...)
	e.changes = append(e.changes, c)
}

// run sends all statements and counts the sources that they changed. Sources without a statement count as unchanged only where
// something was given for them; there is nothing to say about the others.
func (e *editor) run(ctx context.Context, tx pgx.Tx) (Applied, error) {
	inserted, updated, seen := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	done := 0
	for i, q := range e.batch.QueuedQueries {
		c := e.changes[i]
		q.Exec(func(tag pgconn.CommandTag) error {
			done++
			seen[c.code] = true
			switch {
			case c.insert:
				inserted[c.code] = true
			case tag.RowsAffected() > 0 && !inserted[c.code]:
				updated[c.code] = true
			}
			return nil
		})
	}
	if err := tx.SendBatch(ctx, &e.batch).Close(); err != nil {
		if judge(err) == refused && done < len(e.changes) {
			return Applied{}, fmt.Errorf("change source %q: %w", e.changes[done].code, err)
		}
		return Applied{}, fmt.Errorf("change sources: %w", err)
	}
	return Applied{Inserted: len(inserted), Updated: len(updated), Unchanged: len(seen) - len(inserted) - len(updated)}, nil
}

// parameter is the placeholder of the column at a position, with its type.
func (c column) parameter(i int) string { return fmt.Sprintf("$%d::%s", i+1, c.cast) }

func named(columns []column, name string) bool {
	for _, c := range columns {
		if c.name == name {
			return true
		}
	}
	return false
}

func each(columns []column, f func(column, int) string) []string {
	texts := make([]string, len(columns))
	for i, c := range columns {
		texts[i] = f(c, i)
	}
	return texts
}

func join(columns []column, f func(column, int) string) string {
	return strings.Join(each(columns, f), ", ")
}
