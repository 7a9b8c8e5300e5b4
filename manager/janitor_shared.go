package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/sql"
	"crawlkeeper/worker"
	"crawlkeeper/worker/process"
)

// What was left behind in Redis and Postgres.

// keyBatch is of how many sources the keys are looked at in one round trip.
const keyBatch = 500

// keys finds what the manager keeps in Redis for sources that were deleted.
func (j *janitor) keys(ctx context.Context) ([]leak, error) {
	codes := make([]string, 0, len(j.deleted))
	for code := range j.deleted {
		codes = append(codes, code)
	}
	var out []leak
	for len(codes) > 0 {
		batch := codes[:min(keyBatch, len(codes))]
		codes = codes[len(batch):]
		found, err := j.keysOf(ctx, batch)
		if err != nil {
			return out, fmt.Errorf("look for keys of deleted sources: %w", err)
		}
		out = append(out, found...)
	}
	return out, nil
}

func (j *janitor) keysOf(ctx context.Context, codes []string) ([]leak, error) {
	keys := j.m.conf.Redis
	pipe := j.m.Redis.Pipeline()
	var leaks []leak
	var answers []redis.Cmder
	for _, code := range codes {
		forget := j.forget(code)
		ask := func(kind, what string, answer redis.Cmder) {
			leaks = append(leaks, leak{kind: kind, what: what, source: code, since: j.deleted[code], remove: forget})
			answers = append(answers, answer)
		}
		ask(leakTick, keys.StartURLs(code), pipe.Exists(ctx, keys.StartURLs(code)))
		for _, key := range keys.Clean(code) {
			ask(leakKey, key, pipe.Exists(ctx, key))
		}
		ask(leakDue, keys.LastDue()+" "+code, pipe.HMGet(ctx, keys.LastDue(), code, " "+code, "-"+code, "+"+code))
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var out []leak
	for i, answer := range answers {
		switch a := answer.(type) {
		case *redis.IntCmd:
			if a.Val() > 0 {
				out = append(out, leaks[i])
			}
		case *redis.SliceCmd:
			if slices.ContainsFunc(a.Val(), func(v any) bool { return v != nil }) {
				out = append(out, leaks[i])
			}
		}
	}
	return out, nil
}

// forget removes all that Redis has of a source, with the first call that succeeds.
func (j *janitor) forget(code string) func(context.Context) error {
	done := false
	return func(ctx context.Context) (err error) {
		if !done {
			err = j.forgetNow(ctx, code)
			done = err == nil
		}
		return err
	}
}

// forgetNow has the fleet's goroutine ask for it: a source that comes back gets its ticks later, and so behind it in the
// same queue.
func (j *janitor) forgetNow(ctx context.Context, code string) error {
	done, ok := query(ctx, j.m.fleet, func() <-chan error {
		if j.m.fleet.sources[code] != nil {
			return nil
		}
		delete(j.m.fleet.lost, code)
		return j.m.lists.Forget(code)
	})
	switch {
	case !ok:
		return errors.New("the manager ends, or is too busy")
	case done == nil:
		return errors.New("its source is there again")
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state is what the fleet knows of a source, for what its rows say.
type state struct {
	process string    // that runs or was the last one; "" where it rests
	starts  bool      // a process is about to be started, of which nothing but a row may be there for as long as a hook or Redis takes
	quiet   time.Time // what was opened before this belongs to no crawler that lives
}

// settledAfter is when an end was surely marked: twice, and written.
const settledAfter = 2 * secondMark

// states are those of all sources of ours.
func (j *janitor) states(ctx context.Context) (map[string]state, error) {
	if j.alone { // no crawler of ours lives
		out := map[string]state{}
		rows, err := j.m.Store.Sources(ctx, j.m.conf.Manager.Collector)
		for _, r := range rows {
			out[r.Code] = state{quiet: time.Now()}
		}
		return out, err
	}
	out, ok := query(ctx, j.m.fleet, func() map[string]state {
		out := make(map[string]state, len(j.m.fleet.sources))
		settled := time.Now().Add(-settledAfter)
		for code, s := range j.m.fleet.sources {
			w := s.worker.Snapshot()
			st := state{process: w.ProcessID, starts: w.Phase == worker.Starting}
			switch {
			case s.hasNone() && (w.LastExit == nil || w.LastExit.At.Before(settled)):
				st = state{quiet: settled}
			case w.Phase.Up() && w.StartedAt.Before(settled):
				st.quiet = w.StartedAt
			}
			out[code] = st
		}
		return out
	})
	if !ok {
		return nil, errors.New("the manager ends, or is too busy")
	}
	return out, nil
}

// rows finds rows of crawl_processes that say that something runs, which does not.
func (j *janitor) rows(ctx context.Context) ([]leak, error) {
	before, err := j.openRows(ctx)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	// What has just ended is about to be written down.
	if err := pause(ctx, drainAfter); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	if err := j.m.journal.Flush(bounded); err != nil {
		return nil, fmt.Errorf("look for rows that are open: %w", err)
	}
	now, err := j.openRows(ctx)
	var out []leak
	for id, row := range now {
		if _, twice := before[id]; !twice {
			continue
		}
		out = append(out, leak{kind: leakRow, what: fmt.Sprintf("%s, pid %d of %s on %s", id, row.Pid, row.Manager, row.Host), source: row.Source, since: row.QueuedAt,
			remove: func(context.Context) error {
				j.m.lose(&row)
				j.m.journal.Process(row)
				return nil
			}})
	}
	return out, err
}

// drainAfter is longer than a worker takes from the last look at a tree until it has told of its end.
const drainAfter = 2 * time.Second

// openRows are those of ours whose process is not claimed: of our sources, of those that were deleted, or of a manager of
// our name, which can only be an earlier one unless the source is another collector's.
func (j *janitor) openRows(ctx context.Context) (map[string]sql.Process, error) {
	states, err := j.states(ctx)
	if err != nil {
		return nil, err
	}
	open, err := j.m.Store.OpenProcesses(ctx, "")
	if err != nil {
		return nil, err
	}
	out := map[string]sql.Process{}
	for _, p := range open {
		st, known := states[p.Source]
		_, deleted := j.deleted[p.Source]
		ours := known || deleted || p.Manager == j.m.fleet.identity.Manager
		about := st.starts && p.Status == sql.ProcessQueued
		if ours && !about && time.Since(p.QueuedAt) >= j.age && st.process != p.ID && !j.m.spawner.Claimed(p.ID) && !j.lives(p) {
			out[p.ID] = p
		}
	}
	foreign, err := j.m.Store.ForeignSources(ctx, j.m.conf.Manager.Collector, sourcesOf(out))
	maps.DeleteFunc(out, func(_ string, p sql.Process) bool { return foreign[p.Source] })
	return out, err
}

// lives tells whether the process of a row runs on this host: it may be that of another manager of our name.
func (j *janitor) lives(p sql.Process) bool {
	who := j.m.fleet.identity
	if p.Pid == 0 || p.Host != who.Host || p.BootID != who.BootID {
		return false
	}
	start, there := process.StartTime(p.Pid)
	return there && start == p.StartTime
}

func sourcesOf(rows map[string]sql.Process) []string {
	codes := make([]string, 0, len(rows))
	for _, p := range rows {
		codes = append(codes, p.Source)
	}
	return codes
}

// runs finds runs that are still running although the crawler that opened them is gone.
func (j *janitor) runs(ctx context.Context) ([]leak, error) {
	states, err := j.states(ctx)
	if err != nil {
		return nil, err
	}
	open, err := j.m.Store.Runs(ctx, sql.RunFilter{Status: "running"})
	if err != nil {
		return nil, err
	}
	var out []leak
	for _, r := range open {
		quiet := states[r.Source].quiet
		if at, deleted := j.deleted[r.Source]; deleted {
			quiet = at
		}
		if r.Trigger == "" || r.Trigger == "backfill" || r.StartedAt.IsZero() || !r.StartedAt.Before(quiet) {
			continue
		}
		mark := sql.Mark{Source: r.Source, Ended: r.StartedAt.Add(time.Microsecond), FinishedAt: time.Now(), Error: j.m.lostText()}
		out = append(out, leak{kind: leakRun, what: "run " + r.ID, source: r.Source, since: r.StartedAt,
			remove: func(context.Context) error { j.m.journal.Mark(mark); return nil }})
	}
	return out, nil
}

// old counts rows past their age. They are also removed every hour.
func (j *janitor) old(ctx context.Context) ([]leak, error) {
	var out []leak
	var errs []error
	p := j.m.newPruner()
	for _, t := range p.tables {
		age := t.age(j.conf.Keep)
		if age <= 0 {
			continue
		}
		before := time.Now().Add(-age)
		n, err := t.count(ctx, sql.Pruning{Collector: p.collector, Before: before})
		errs = append(errs, err)
		if n > 0 {
			out = append(out, leak{kind: leakOld, what: fmt.Sprintf("%d rows of %s", n, t.name), since: before, count: int(n),
				remove: func(ctx context.Context) error { _, err := p.empty(ctx, t, before); return err }})
		}
	}
	return out, errors.Join(errs...)
}
