package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/manager/schedule"
	"crawlkeeper/sql"
)

// The kinds of what is left behind. They are the values of a label.
const (
	leakProcess = "process"     // bears a number of ours, and no living manager owns it
	leakCgroup  = "cgroup"      // of a tree that ended
	leakTemp    = "temp"        // a directory for temporary files of a process that ended
	leakList    = "borrowed"    // what such a process has registered and could not be given back
	leakLog     = "log"         // a log file of a source that was deleted
	leakTick    = "tick"        // a list of ticks of one
	leakKey     = "key"         // a key that is cleaned before a start, of one
	leakDue     = "last_due"    // a field of one
	leakRow     = "process_row" // a row of crawl_processes that says that a process runs, which does not
	leakRun     = "run"         // a run that is still running, and whose crawler is gone
	leakOld     = "old_rows"    // rows past their age
)

var leakKinds = []string{leakProcess, leakCgroup, leakTemp, leakList, leakLog, leakTick, leakKey, leakDue, leakRow, leakRun, leakOld}

const (
	janitorTurn = time.Minute     // the longest pause between two looks at the configuration
	censusLimit = 5 * time.Second // for writing which sources came and went
	mostListed  = 1000            // leaks in a reply, which are all counted
	removeLimit = 30 * time.Second
	findLimit   = 5 * time.Minute  // for finding, not for removing
	flushLimit  = 10 * time.Second // for what is closed in the database
)

// leak is one thing that was left behind, or rows that are counted together.
type leak struct {
	kind, what, source string
	since              time.Time
	count              int // 0 is one
	remove             func(context.Context) error
}

// tidying is a look that somebody asked for.
type tidying struct {
	remove bool
	done   func(*control.Cleaning) // nil: the end came before it
}

// askJanitor asks for a look. False where too many wait. done is called by the janitor, or at the end.
func (m *Manager) askJanitor(remove bool, done func(*control.Cleaning)) bool {
	select {
	case m.tidying <- tidying{remove, done}:
		return true
	default:
		return false
	}
}

// refuseLooks answers who waits for a look when no more is made. The fleet has ended: nobody asks any more.
func (m *Manager) refuseLooks() {
	for {
		select {
		case t := <-m.tidying:
			t.done(nil)
		default:
			return
		}
	}
}

// tellJanitor says that sources came or went.
func (m *Manager) tellJanitor() {
	select {
	case m.census <- struct{}{}:
	default:
	}
}

// janitorLoop looks when its cron line says so, and when it is asked.
func (m *Manager) janitorLoop(ctx context.Context) error {
	j := &janitor{m: m}
	last := time.Now()
	for {
		next := m.nextLook(m.janitorSettings(ctx), last)
		timer := time.NewTimer(min(janitorTurn, time.Until(next)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-m.census:
		case t := <-m.tidying:
			found := j.look(ctx, t.remove)
			t.done(&found)
		case <-timer.C:
		}
		timer.Stop()
		m.writeCensus(ctx)
		if now := time.Now(); !next.After(now) { // times that were missed are one look
			last = now
			if settings := m.janitorSettings(ctx); settings.Schedule != "" { // a reload may have changed them meanwhile
				j.night(ctx, settings.Remove)
			}
		}
	}
}

func (m *Manager) janitorSettings(ctx context.Context) configs.Janitor {
	settings, _ := query(ctx, m.fleet, func() configs.Janitor { return m.fleet.conf.Janitor })
	return settings
}

// noLook is far enough away.
const noLook = 1000 * time.Hour

// nextLook is when the cron line says so, or in a long time.
func (m *Manager) nextLook(c configs.Janitor, last time.Time) time.Time {
	if c.Schedule != "" {
		plan, err := schedule.Cron(c.Schedule, c.Timezone, 0)
		if next := plan.Next(m.born, last); err == nil && !next.IsZero() {
			return next
		}
	}
	return time.Now().Add(noLook)
}

// writeCensus writes down which sources were seen to be deleted, and which are there. What cannot be written is tried
// again with the next turn.
func (m *Manager) writeCensus(ctx context.Context) {
	type census struct {
		gone map[string]time.Time
		here map[string]bool
	}
	c, ok := query(ctx, m.fleet, func() census {
		c := census{m.fleet.vanished, m.fleet.returned}
		m.fleet.vanished, m.fleet.returned = map[string]time.Time{}, map[string]bool{}
		return c
	})
	if !ok || len(c.gone)+len(c.here) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, censusLimit)
	defer cancel()
	err := errors.Join(m.Store.NoteDeleted(bounded, c.gone), m.Store.NoteReturned(bounded, slices.Collect(maps.Keys(c.here))))
	if err == nil || ctx.Err() != nil {
		return
	}
	m.Logger.Warn("which sources came and went cannot be written down; it is tried again", "error", err)
	m.fleet.inbox.put(func() { // unless something newer is known of them
		for code, at := range c.gone {
			if _, newer := m.fleet.vanished[code]; !newer && !m.fleet.returned[code] {
				m.fleet.vanished[code] = at
			}
		}
		for code := range c.here {
			if _, newer := m.fleet.vanished[code]; !newer {
				m.fleet.returned[code] = true
			}
		}
	})
}

// janitor finds what was left behind. It belongs to one goroutine.
type janitor struct {
	m       *Manager
	alone   bool // there is no fleet with sources: no crawler of ours runs on any host
	conf    *configs.Config
	age     time.Duration
	deleted map[string]time.Time // sources that were seen to be deleted long enough ago
	young   []string             // sources of which something was found that is too young to be looked at
	failed  []string             // what could not be looked at
}

// night is a look at its time: it is also written down, and compared with the last one.
func (j *janitor) night(ctx context.Context, remove bool) {
	m := j.m
	found := j.look(ctx, remove)
	before, err := m.Store.LastLeaks(ctx, m.conf.Manager.Name)
	if err == nil {
		m.compareLeaks(before, found)
		err = m.Store.AddLeaks(ctx, m.conf.Manager.Name, time.Now(), leakRows(found))
	}
	if err != nil && ctx.Err() == nil {
		m.Logger.Warn("what was found left behind cannot be compared or written down", "error", err)
	}
}

// risen are the kinds of which more was found than at the last look. At the first look there are none.
func risen(before map[string]sql.Leaks, found control.Cleaning) []string {
	var kinds []string
	for _, kind := range leakKinds {
		if last, ok := before[kind]; ok && found.Kinds[kind].Found > last.Found {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// compareLeaks tells of what more is left behind than at the last look.
func (m *Manager) compareLeaks(before map[string]sql.Leaks, found control.Cleaning) {
	var texts []string
	for _, kind := range risen(before, found) {
		was, is := before[kind].Found, found.Kinds[kind].Found
		m.Logger.Warn("more is left behind than at the last look: see `crawlkeeper janitor`", "kind", kind, "before", was, "now", is)
		texts = append(texts, fmt.Sprintf("%s: %d, %d before", kind, is, was))
	}
	m.fleet.inbox.put(func() {
		if texts == nil {
			m.fleet.alertOver(configs.AlertLeaks, "")
		} else {
			m.fleet.alert(configs.AlertLeaks, "", "more is left behind: "+strings.Join(texts, "; "))
		}
	})
}

// leakRows has a row for each kind, so that a kind of which nothing was found can rise.
func leakRows(found control.Cleaning) []sql.Leaks {
	rows := make([]sql.Leaks, 0, len(leakKinds))
	for _, kind := range leakKinds {
		rows = append(rows, sql.Leaks{Kind: kind, Found: found.Kinds[kind].Found, Removed: found.Kinds[kind].Removed})
	}
	return rows
}

// look finds everything, then removes it where that is wanted.
func (j *janitor) look(ctx context.Context, remove bool) control.Cleaning {
	began := time.Now()
	out := control.Cleaning{Kinds: map[string]control.Count{}, Leaks: []control.Leak{}}
	leaks, err := j.find(ctx)
	if err != nil {
		out.Problems = []string{err.Error()}
		return out
	}
	var failures []error
	if remove {
		failures = j.removeAll(ctx, leaks)
	}
	for i, l := range leaks {
		told := control.Leak{Kind: l.kind, What: l.what, Source: l.source, AgeSeconds: began.Sub(l.since).Round(time.Second).Seconds()}
		switch {
		case !remove:
			told.Why = "only reported"
		case failures[i] != nil:
			told.Why = failures[i].Error()
		default:
			told.Removed = true
		}
		count := out.Kinds[l.kind]
		count.Found += max(1, l.count)
		if told.Removed {
			count.Removed += max(1, l.count)
		}
		out.Kinds[l.kind] = count
		if len(out.Leaks) < mostListed {
			out.Leaks = append(out.Leaks, told)
		} else {
			out.More++
		}
	}
	out.Problems = j.failed
	j.tell(out, remove, time.Since(began))
	return out
}

// tell counts, and logs a line.
func (j *janitor) tell(out control.Cleaning, remove bool, took time.Duration) {
	found, removed := 0, 0
	for kind, c := range out.Kinds {
		j.m.metrics.Leaks(kind, c.Found)
		found, removed = found+c.Found, removed+c.Removed
	}
	for _, p := range out.Problems {
		j.m.Logger.Warn("the janitor cannot look everywhere", "error", p)
	}
	j.m.Logger.Info("the janitor has looked", "found", found, "removed", removed, "remove", remove, "took", took.Round(time.Millisecond))
}

// removeAll goes through all of them, each attempt on its own, and says what failed.
func (j *janitor) removeAll(ctx context.Context, leaks []leak) []error {
	failures := make([]error, len(leaks))
	for i, l := range leaks {
		bounded, cancel := context.WithTimeout(ctx, removeLimit)
		failures[i] = l.remove(bounded)
		cancel()
	}
	bounded, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	if j.m.journal.Flush(bounded) != nil {
		j.failed = append(j.failed, "what was closed is not in Postgres yet, and follows")
	}
	j.settleDeleted(ctx, leaks)
	return failures
}

// settleDeleted takes sources of which nothing was found off those that were deleted.
func (j *janitor) settleDeleted(ctx context.Context, leaks []leak) {
	if len(j.failed) > 0 {
		return
	}
	left := maps.Clone(j.deleted)
	for _, l := range leaks {
		delete(left, l.source)
	}
	for _, code := range j.young {
		delete(left, code)
	}
	if err := j.m.Store.NoteReturned(ctx, slices.Collect(maps.Keys(left))); err != nil {
		j.failed = append(j.failed, err.Error())
	}
}

// find asks all that know of something. What fails is told, and does not stop the others.
func (j *janitor) find(ctx context.Context) ([]leak, error) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	conf, ok := query(ctx, j.m.fleet, func() *configs.Config { return j.m.fleet.conf })
	if !ok {
		return nil, errors.New("the manager ends, or is too busy")
	}
	j.conf, j.age, j.failed = conf, conf.Janitor.MinAge, nil
	var err error
	if j.deleted, err = j.m.Store.DeletedSources(ctx, time.Now().Add(-j.age)); err != nil {
		j.failed = append(j.failed, err.Error())
	}
	var all []leak
	for _, f := range []func(context.Context) ([]leak, error){j.processes, j.places, j.logs, j.keys, j.rows, j.runs, j.old} {
		found, err := f(ctx)
		if err != nil {
			j.failed = append(j.failed, err.Error())
		}
		all = append(all, found...)
	}
	j.young = nil
	all = slices.DeleteFunc(all, func(l leak) bool {
		young := time.Since(l.since) < j.age
		if young {
			j.young = append(j.young, l.source)
		}
		return young
	})
	slices.SortStableFunc(all, func(a, b leak) int {
		return cmp.Or(cmp.Compare(slices.Index(leakKinds, a.kind), slices.Index(leakKinds, b.kind)), a.since.Compare(b.since))
	})
	return all, nil
}
