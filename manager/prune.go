package manager

import (
	"context"
	"log/slog"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
)

const (
	pruneFirst = 10 * time.Second // after the start
	pruneEvery = time.Hour
	pruneBatch = 1000
	pruneRest  = 100 * time.Millisecond // the shortest pause between two batches
	pruneLimit = time.Minute            // for one batch
)

// pruneLoop removes rows that are past their age, soon after the start and then every hour. What a reload says of ages counts
// from the next time on.
func (m *Manager) pruneLoop(ctx context.Context) error {
	p := m.newPruner()
	for wait := pruneFirst; pause(ctx, wait) == nil; wait = pruneEvery {
		keep, ok := query(ctx, m.fleet, func() configs.Keep { return m.fleet.conf.Keep })
		if ok {
			p.prune(ctx, keep)
		}
	}
	return nil
}

func (m *Manager) newPruner() *pruner {
	// Log lines first: where they refer to runs, these cannot go before them.
	return &pruner{collector: m.conf.Manager.Collector, logger: m.Logger, tables: []*prunedTable{
		{name: "crawl_logs", remove: m.Store.PruneLogs, count: m.Store.CountOldLogs, age: func(k configs.Keep) time.Duration { return k.Logs }},
		{name: "crawl_runs", remove: m.Store.PruneRuns, count: m.Store.CountOldRuns, age: func(k configs.Keep) time.Duration { return k.Runs }},
		{name: "crawl_processes", remove: m.Store.PruneProcesses, count: m.Store.CountOldProcesses, age: func(k configs.Keep) time.Duration { return k.Processes }},
	}}
}

// pruner removes old rows, a few at a time. It is used by one goroutine.
type pruner struct {
	collector string
	tables    []*prunedTable
	logger    *slog.Logger
}

type prunedTable struct {
	name   string
	age    func(configs.Keep) time.Duration // 0 = for ever
	remove func(context.Context, sql.Pruning) (int64, error)
	count  func(context.Context, sql.Pruning) (int64, error) // what remove would remove
	failed bool                                              // that was said
}

// prune goes once through all tables. What goes wrong with one does not keep it from the next.
func (p *pruner) prune(ctx context.Context, keep configs.Keep) {
	for _, t := range p.tables {
		age := t.age(keep)
		if age <= 0 {
			continue
		}
		rows, err := p.empty(ctx, t, time.Now().Add(-age))
		if rows > 0 {
			p.logger.Info("old rows were removed", "table", t.name, "rows", rows, "older_than", age)
		}
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !t.failed:
			p.logger.Warn("old rows cannot be removed; it is tried again every hour", "table", t.name, "error", err)
		case err == nil && t.failed:
			p.logger.Info("old rows can be removed again", "table", t.name)
		}
		t.failed = err != nil
	}
}

// empty removes what is older than a time, and says how much that was. It rests for as long as it worked, so that others have
// their turn.
func (p *pruner) empty(ctx context.Context, t *prunedTable, before time.Time) (rows int64, err error) {
	for {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, pruneLimit)
		n, err := t.remove(bounded, sql.Pruning{Collector: p.collector, Before: before, Limit: pruneBatch})
		cancel()
		rows += n
		if err != nil || n < pruneBatch {
			return rows, err
		}
		if err := pause(ctx, max(pruneRest, time.Since(began))); err != nil {
			return rows, err
		}
	}
}
