package sql

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"crawlkeeper/sql/internal/db"
)

// LogLine is a row for crawl_logs.
type LogLine struct {
	Source  string
	Level   string // INFO, WARNING, ERROR
	Message string
	At      time.Time
}

// kind is one of the four kinds of entries. They do not depend on each other.
type kind int

const (
	kindProcesses kind = iota
	kindMarks
	kindChanges
	kindLogs
)

func (k kind) String() string { return [...]string{"processes", "marks", "changes", "logs"}[k] }

// group is what one transaction writes.
type group struct {
	processes []*item[string, Process]
	marks     []*item[string, marks]
	changes   []*item[string, SourceChange]
	logs      []*item[uint64, LogLine]
}

func (g group) len() int { return len(g.processes) + len(g.marks) + len(g.changes) + len(g.logs) }

// kinds lists which kinds the group has.
func (g group) kinds() (kinds []kind) {
	for k, n := range [...]int{len(g.processes), len(g.marks), len(g.changes), len(g.logs)} {
		if n > 0 {
			kinds = append(kinds, kind(k))
		}
	}
	return kinds
}

// split takes a group apart: by kind, and one kind in two halves.
func (g group) split() []group {
	if len(g.kinds()) == 1 {
		a, b := g, g
		a.processes, b.processes = halves(g.processes)
		a.marks, b.marks = halves(g.marks)
		a.changes, b.changes = halves(g.changes)
		a.logs, b.logs = halves(g.logs)
		return []group{a, b}
	}
	var parts []group
	for _, part := range []group{{processes: g.processes}, {marks: g.marks}, {changes: g.changes}, {logs: g.logs}} {
		if part.len() > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

func halves[T any](list []T) (a, b []T) { return list[:len(list)/2], list[len(list)/2:] }

// values are the values of items.
func values[K comparable, V any](items []*item[K, V]) []V {
	list := make([]V, len(items))
	for i, it := range items {
		list[i] = it.value
	}
	return list
}

func logColumns(list []LogLine, messageLimit int) (c db.InsertLogsParams) {
	for _, l := range list {
		c.Sources = append(c.Sources, clean(l.Source))
		c.Levels = append(c.Levels, clean(l.Level))
		c.Messages = append(c.Messages, truncate(clean(l.Message), messageLimit))
		c.CreatedAts = append(c.CreatedAts, timestamp(l.At))
	}
	return c
}

// withIDs adds ids that sort by time.
func withIDs(c db.InsertLogsParams) db.InsertLogsWithIDsParams {
	ids := make([]pgtype.UUID, len(c.Sources))
	for i := range ids {
		ids[i] = pgtype.UUID{Bytes: uuid.Must(uuid.NewV7()), Valid: true}
	}
	return db.InsertLogsWithIDsParams{Ids: ids, Sources: c.Sources, Levels: c.Levels, Messages: c.Messages, CreatedAts: c.CreatedAts}
}

// firstSeq is the number of the oldest entry; 0 where there is none.
func (g group) firstSeq() uint64 {
	first := uint64(0)
	for _, seq := range [...]uint64{firstOf(g.processes), firstOf(g.marks), firstOf(g.changes), firstOf(g.logs)} {
		if seq > 0 && (first == 0 || seq < first) {
			first = seq
		}
	}
	return first
}

// firstOf is the smallest number of some items.
func firstOf[K comparable, V any](items []*item[K, V]) (first uint64) {
	for _, it := range items {
		if first == 0 || it.seq < first {
			first = it.seq
		}
	}
	return first
}
