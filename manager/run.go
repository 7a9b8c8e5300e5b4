package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
	"crawlkeeper/worker/output"
	"crawlkeeper/worker/process"
)

const (
	pollEvery  = time.Second
	pollLimit  = 10 * time.Second
	usageEvery = 30 * time.Second
	usageFirst = 5 * time.Second
	// stuckAfter is when a loop that did not turn counts as dead.
	stuckAfter = 10 * time.Second
)

func (m *Manager) pollNow() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// pollLoop reads the sources every second; that is cheap where nothing changed.
func (m *Manager) pollLoop(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var version sql.Version
	for {
		version = m.pollOnce(ctx, version)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-m.kick:
			version = sql.Version{} // a message may be lost: the wanted state must not depend on it
		}
	}
}

func (m *Manager) pollOnce(ctx context.Context, since sql.Version) sql.Version {
	bounded, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	asked := time.Now()
	rows, version, changed, err := m.Store.Poll(bounded, m.conf.Manager.Collector, since)
	if ctx.Err() != nil {
		return since
	}
	if up := err == nil; m.postgresUp.Swap(up) != up {
		if up {
			m.Logger.Info("postgres answers again")
		} else {
			m.Logger.Warn("postgres does not answer; ticks go on from what was last read", "error", err)
		}
	}
	m.polledAt.Store(int64(time.Since(m.born)))
	if err != nil {
		return since
	}
	m.fleet.inbox.put(func() {
		if changed && !m.fleet.loaded {
			m.markLost(rows)
		}
		m.fleet.rows(rows, changed, asked)
		m.ready.Store(m.fleet.loaded)
	})
	return version
}

// markLost marks the runs that earlier managers left open, before anything is started.
func (m *Manager) markLost(rows []sql.Source) {
	codes := make([]string, len(rows))
	for i, r := range rows {
		codes[i] = r.Code
	}
	m.journal.MarkLost(codes, time.Now(), m.conf.Runs.InterruptedText+" (manager_lost)")
}

// repairLoop closes, once Postgres answers, the rows of processes that earlier managers left open.
func (m *Manager) repairLoop(ctx context.Context) error {
	for m.repairOnce(ctx) != nil {
		if pause(ctx, 5*time.Second) != nil {
			return nil
		}
	}
	<-ctx.Done()
	return nil
}

func (m *Manager) repairOnce(ctx context.Context) error {
	if !m.ready.Load() {
		return errors.New("the sources are not read yet")
	}
	open, err := m.Store.OpenProcesses(ctx, "")
	if err != nil {
		return err
	}
	m.fleet.ask(ctx, func() {
		for _, p := range open {
			if m.fleet.sources[p.Source] == nil || !p.QueuedAt.Before(m.born) {
				continue
			}
			p.Status, p.Cause, p.EndedAt = sql.ProcessExited, "manager_lost", time.Now()
			m.journal.Process(p)
		}
	})
	return nil
}

// statusLoop writes the status hash.
func (m *Manager) statusLoop(ctx context.Context) error {
	w := m.writer()
	ticker := time.NewTicker(m.conf.Manager.StatusInterval)
	defer ticker.Stop()
	said := ""
	for {
		err := m.writeStatus(ctx, w)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
		case said != err.Error():
			said = err.Error()
			m.Logger.Warn("the status cannot be written", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (m *Manager) writeStatus(ctx context.Context, w *status.Writer) error {
	type entry struct {
		code   string
		record status.Record
	}
	var entries []entry
	loaded := false
	if !m.fleet.ask(ctx, func() {
		loaded = m.fleet.loaded
		entries = make([]entry, 0, len(m.fleet.sources))
		for code, r := range m.fleet.records() {
			entries = append(entries, entry{code, *r})
		}
	}) {
		return ctx.Err()
	}
	if !loaded {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	return w.Write(ctx, func(yield func(string, *status.Record) bool) {
		for i := range entries {
			if !yield(entries[i].code, &entries[i].record) {
				return
			}
		}
	})
}

// usageLoop measures what the trees use, and counts the lines of output that were lost.
func (m *Manager) usageLoop(ctx context.Context) error {
	ticker := time.NewTicker(usageFirst) // so that a new manager shows something soon
	defer ticker.Stop()
	meter := meter{last: map[string]usage{}, lost: map[string]uint64{}}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			ticker.Reset(usageEvery)
			m.measure(ctx, &meter)
		}
	}
}

// meter remembers what was measured last, by source.
type meter struct {
	last map[string]usage
	lost map[string]uint64
}

type usage struct {
	process string
	cpu     time.Duration
	at      time.Time
}

func (m *Manager) measure(ctx context.Context, meter *meter) {
	running := map[string]*worker.Snapshot{}
	outputs := map[string]*output.Output{}
	m.fleet.ask(ctx, func() {
		for code, s := range m.fleet.sources {
			if snap := s.worker.Snapshot(); snap.Pid != 0 {
				running[code] = snap
			}
			if s.output != nil {
				outputs[code] = s.output
			}
		}
	})
	next := make(map[string]usage, len(running))
	for code, snap := range running {
		u := process.UsageOf(snap.Pid)
		now := usage{snap.ProcessID, u.CPU, time.Now()}
		percent := 0
		if before, ok := meter.last[code]; ok && before.process == now.process && u.CPU >= before.cpu {
			percent = int(100 * (u.CPU - before.cpu) / now.at.Sub(before.at))
		}
		next[code] = now
		m.fleet.inbox.put(func() {
			if s := m.fleet.sources[code]; s != nil {
				s.rss, s.cpu = u.RSS, percent
			}
		})
	}
	meter.last = next
	lost := make(map[string]uint64, len(outputs))
	for code, out := range outputs {
		stats := out.Stats()
		lost[code] = stats.LostForward + stats.LostFile
		if before := meter.lost[code]; lost[code] > before {
			m.metrics.OutputDropped(code, int(lost[code]-before))
		}
	}
	meter.lost = lost
}

// health tells which loop of the manager is dead.
func (m *Manager) health() error {
	if !m.active.Load() {
		return nil
	}
	if d := m.fleet.stuckFor(); d > stuckAfter {
		return fmt.Errorf("the fleet's loop has not turned for %s", d.Round(time.Second))
	}
	if m.lease.late() {
		return errors.New("the loop that keeps the manager's key has not turned")
	}
	if d := time.Since(m.born) - time.Duration(m.polledAt.Load()); m.ready.Load() && d > pollLimit+stuckAfter {
		return fmt.Errorf("the sources were not polled for %s", d.Round(time.Second))
	}
	return nil
}

// readiness tells why the manager does not do its whole job now.
func (m *Manager) readiness() error {
	switch {
	case !m.active.Load():
		if h := m.lease.other.Load(); h != nil {
			return fmt.Errorf("standby: %s is active", h)
		}
		return errors.New("not active yet: waiting for Redis, Postgres or the manager's key")
	case !m.ready.Load():
		return errors.New("the sources are not read yet")
	case !m.lease.up.Load():
		return errors.New("redis does not answer")
	}
	return nil
}

func (m *Manager) workersByPhase() map[string]int {
	out := map[string]int{}
	m.withSources(func(s *source) { out[string(s.worker.Snapshot().Phase)]++ })
	return out
}

func (m *Manager) waitingTicks() int {
	n := 0
	m.withSources(func(s *source) {
		if s.waits {
			n++
		}
	})
	return n
}

// withSources visits all sources in the fleet's goroutine. It gives up after a second: a scrape must not hang.
func (m *Manager) withSources(visit func(*source)) {
	if !m.active.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m.fleet.ask(ctx, func() {
		for _, s := range m.fleet.sources {
			visit(s)
		}
	})
}

// outputLines is how many lines `output` begins with.
const outputLines = 200

func (m *Manager) outputOf(ctx context.Context, code string, follow bool) (iter.Seq[[]byte], bool) {
	if !m.active.Load() {
		return nil, false
	}
	var s *source
	if !m.fleet.ask(ctx, func() { s = m.fleet.sources[code] }) || s == nil || s.output == nil {
		return nil, false
	}
	out := s.output
	return func(yield func([]byte) bool) {
		if !follow {
			for _, line := range out.Last(outputLines) {
				if !yield(line.Text) {
					return
				}
			}
			return
		}
		for line := range out.Follow(ctx, outputLines) {
			if !yield(line.Text) {
				return
			}
		}
	}, true
}
