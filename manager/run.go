package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker/limits"
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
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	var version sql.Version
	for {
		version = m.pollOnce(ctx, version)
		timer.Reset(m.rhythm.next(pollEvery))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
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
	m.journal.MarkLost(codes, time.Now(), m.lostText())
}

// repairLoop closes, once Postgres answers, the rows of processes that earlier managers left open, and then runs the hooks
// that they owe.
func (m *Manager) repairLoop(ctx context.Context) error {
	for wait := 50 * time.Millisecond; m.repairOnce(ctx) != nil; wait = min(2*wait, 5*time.Second) {
		if pause(ctx, wait) != nil {
			return nil
		}
	}
	return m.payLoop(ctx)
}

// codes are those of all sources; nil before they were read for the first time.
func (f *fleet) codes() map[string]bool {
	if !f.loaded {
		return nil
	}
	codes := make(map[string]bool, len(f.sources))
	for code := range f.sources {
		codes[code] = true
	}
	return codes
}

func (m *Manager) repairOnce(ctx context.Context) error {
	open, err := m.Store.OpenProcesses(ctx, "")
	if err != nil {
		return err
	}
	codes, ok := query(ctx, m.fleet, m.fleet.codes)
	if !ok || codes == nil {
		return errors.New("the sources are not read yet")
	}
	gone, err := m.gone(ctx, open, codes)
	if err != nil {
		return err
	}
	who, since := m.fleet.identity, time.Unix(0, m.activeSince.Load())
	for _, p := range open {
		ours := p.Manager == who.Manager && p.Host == who.Host && p.BootID == who.BootID && !p.QueuedAt.Before(since)
		nobodys := (p.Source == "" || gone[p.Source]) && p.Manager == who.Manager // of an alert, or of a source that was deleted
		if ours || !codes[p.Source] && !nobodys {
			continue
		}
		m.lose(&p)
		m.journal.Process(p)
	}
	return nil
}

// lostText is the error of runs whose manager was killed.
func (m *Manager) lostText() string { return m.fleet.interruptedText + " (" + causeLost + ")" }

// lose closes the row of a process whose manager was killed, with what could not be given back of it.
func (m *Manager) lose(row *sql.Process) {
	row.Status, row.Cause, row.EndedAt = sql.ProcessExited, causeLost, time.Now()
	row.LastLines = append(row.LastLines, keptLines(m.lostKept[row.ID])...)
}

// statusLoop writes the status hash.
func (m *Manager) statusLoop(ctx context.Context) error {
	w := m.writer()
	timer := time.NewTimer(m.conf.Manager.StatusInterval)
	defer timer.Stop()
	said := ""
	var entries []statusEntry
	for {
		var err error
		entries, err = m.writeStatus(ctx, w, entries)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
		case said != err.Error():
			said = err.Error()
			m.Logger.Warn("the status cannot be written", "error", err)
		}
		timer.Reset(m.rhythm.next(m.conf.Manager.StatusInterval))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// statusEntry is the record of a source, on its way to the writer.
type statusEntry struct {
	code   string
	record status.Record
}

// writeStatus writes once. It returns the entries, which the next write fills anew.
func (m *Manager) writeStatus(ctx context.Context, w *status.Writer, entries []statusEntry) ([]statusEntry, error) {
	filled, ok := query(ctx, m.fleet, func() []statusEntry {
		if !m.fleet.loaded {
			return nil
		}
		entries = slices.Grow(entries[:0], len(m.fleet.sources)+1) // never nil
		for code, r := range m.fleet.records() {
			entries = append(entries, statusEntry{code, *r})
		}
		return entries
	})
	if !ok || filled == nil {
		return nil, ctx.Err() // the fleet may still be filling the others
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	return filled, w.Write(ctx, func(yield func(string, *status.Record) bool) {
		for i := range filled {
			if !yield(filled[i].code, &filled[i].record) {
				return
			}
		}
	})
}

// usageLoop looks at the trees: what they use, who is over a limit; and counts the lines of output that were lost. One pass
// over /proc serves all of it.
func (m *Manager) usageLoop(ctx context.Context) error {
	timer := time.NewTimer(m.rhythm.next(usageFirst)) // so that a new manager shows something soon
	defer timer.Stop()
	meter := newMeter()
	defer meter.limits.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(m.rhythm.next(m.measure(ctx, meter)))
		}
	}
}

// meter remembers what was measured last, by source.
type meter struct {
	last   map[string]usage
	lost   map[string]uint64
	at     time.Time // of the last figures for others to see
	limits *limits.Watcher
}

func newMeter() *meter {
	return &meter{last: map[string]usage{}, lost: map[string]uint64{}, limits: limits.NewWatcher()}
}

type usage struct {
	process string
	cpu     time.Duration
	at      time.Time
}

// measure looks once, and returns when to look again.
func (m *Manager) measure(ctx context.Context, meter *meter) time.Duration {
	sources, _ := query(ctx, m.fleet, func() map[string]watched {
		sources := make(map[string]watched, len(m.fleet.sources))
		for code, s := range m.fleet.sources {
			sources[code] = watched{s.worker, s.output, s.limits}
		}
		return sources
	})
	m.spawner.Watch()
	next := usageEvery
	for _, s := range sources {
		if s.limits != nil {
			next = watchEvery
			break
		}
	}
	trees, counted := m.trees(sources)
	show := meter.at.IsZero() || time.Since(meter.at) > usageEvery-watchEvery/2
	var census process.Census
	if show || counted {
		census = m.spawner.Census()
	}
	m.enforce(ctx, meter.limits, census, trees, sources)
	m.renew(ctx, time.Now(), trees, sources)
	if show {
		meter.at = time.Now()
		m.showUsage(ctx, meter, census, sources)
		m.countLost(meter, sources)
	}
	return next
}

func (m *Manager) showUsage(ctx context.Context, meter *meter, census process.Census, sources map[string]watched) {
	next := make(map[string]usage, len(sources))
	for code, p := range sources {
		snap := p.worker.Snapshot()
		if snap.Pid == 0 || ctx.Err() != nil {
			m.metrics.TreeGone(code)
			continue
		}
		u := census.Of(snap.Pid)
		p.worker.Saw(u.RSS, !m.spawner.Ways().Fingerprint)
		now := usage{snap.ProcessID, u.CPU, time.Now()}
		share := 0.0
		if before, ok := meter.last[code]; ok && before.process == now.process && u.CPU >= before.cpu {
			share = float64(u.CPU-before.cpu) / float64(now.at.Sub(before.at))
		}
		next[code] = now
		m.fleet.inbox.put(func() {
			if s := m.fleet.sources[code]; s != nil && s.worker.Snapshot().ProcessID == snap.ProcessID {
				s.rss, s.cpu = u.RSS&^(1<<20-1), int(100*share) // in MiB: what changes less is no news
				m.metrics.Tree(code, u.RSS, share)
			}
		})
	}
	meter.last = next
}

func (m *Manager) countLost(meter *meter, sources map[string]watched) {
	lost := make(map[string]uint64, len(sources))
	for code, p := range sources {
		if p.output == nil {
			continue
		}
		stats := p.output.Stats()
		lost[code] = stats.LostForward + stats.LostFile
		if before := meter.lost[code]; lost[code] > before {
			m.metrics.OutputDropped(code, int(lost[code]-before))
		}
	}
	meter.lost = lost
}

// health tells which loop of the manager is dead.
func (m *Manager) health() error {
	if !m.active.Load() || m.stopping.Load() {
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
	return scraped(m, func() map[string]int {
		out := map[string]int{}
		for _, s := range m.fleet.sources {
			out[string(s.worker.Snapshot().Phase)]++
		}
		return out
	})
}

func (m *Manager) waitingTicks() int {
	return m.count(func(s *source) bool { return s.waits })
}

func (m *Manager) exhausted() int {
	return m.count(func(s *source) bool {
		t := s.worker.Snapshot().Trouble
		return t != nil && t.Exhausted
	})
}

// count counts the sources that are so, for a scrape.
func (m *Manager) count(so func(*source) bool) int {
	return scraped(m, func() int {
		n := 0
		for _, s := range m.fleet.sources {
			if so(s) {
				n++
			}
		}
		return n
	})
}

// scraped asks the fleet for a figure. It gives up after a second: a scrape must not hang.
func scraped[T any](m *Manager, figure func() T) T {
	var none T
	if !m.active.Load() {
		return none
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	v, _ := query(ctx, m.fleet, figure)
	return v
}

// outputLines is how many lines `output` begins with.
const outputLines = 200

func (m *Manager) outputOf(ctx context.Context, code string, follow bool) (iter.Seq[[]byte], bool) {
	if !m.active.Load() {
		return nil, false
	}
	out, ok := query(ctx, m.fleet, func() *output.Output {
		if s := m.fleet.sources[code]; s != nil {
			return s.output
		}
		return nil
	})
	if !ok || out == nil {
		return nil, false
	}
	if follow {
		return shownLines(out.Follow(ctx, outputLines)), true
	}
	return shownLines(slices.Values(out.Last(outputLines))), true
}

// shownLines are the lines as they were printed, with what the reader must know of them: those that were cut bear the mark, and
// where some were lost a line of ours says so.
func shownLines(lines iter.Seq[output.Line]) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range lines {
			if line.Lost > 0 && !yield(fmt.Appendf(nil, "… %d lines lost: the reader was too slow", line.Lost)) {
				return
			}
			text := line.Text
			if line.Cut {
				text = slices.Concat(text, []byte(output.CutMark)) // the text is shared
			}
			if !yield(text) {
				return
			}
		}
	}
}

// gone are the sources of processes that nobody has any more. One may come back, and then it is too late to close its rows.
func (m *Manager) gone(ctx context.Context, open []sql.Process, codes map[string]bool) (map[string]bool, error) {
	gone := make(map[string]bool)
	for _, p := range open {
		if p.Source != "" && !codes[p.Source] {
			gone[p.Source] = true
		}
	}
	foreign, err := m.Store.ForeignSources(ctx, m.conf.Manager.Collector, slices.Collect(maps.Keys(gone)))
	maps.DeleteFunc(gone, func(code string, _ bool) bool { return foreign[code] })
	return gone, err
}
