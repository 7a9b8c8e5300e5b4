package sql

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	lockedDelay  = time.Second      // until what was locked is tried again
	misfitDelay  = 5 * time.Second  // where the tables or the rights do not fit
	refusedDelay = 30 * time.Second // for a mark or a change that was refused
	maxLockWaits = 12               // waits for locks in one go, so that one locked table does not hold up the rest
)

// settle writes a group. Where a part of it is at fault it takes the group apart until the fault is alone: by kind, then by
// halves. It returns an error, and keeps everything that is not written, only where Postgres is away.
func (j *Journal) settle(ctx context.Context, g group) error {
	locks := 0
	work := []group{g}
	for len(work) > 0 {
		part := work[0]
		err := j.commit(ctx, part)
		outcome := judge(err)
		if errors.Is(err, ErrNotMigrated) {
			outcome = away
		}
		if outcome == locked {
			locks++
		}
		switch {
		case outcome == fine:
			j.written(part)
			work = work[1:]
		case outcome == away:
			for _, rest := range slices.Backward(work) {
				j.restore(rest, time.Time{})
			}
			j.wentAway(err)
			return err
		case len(part.kinds()) > 1:
			work = append(part.split(), work[1:]...)
		case outcome == misfit:
			j.shape = nil
			j.putOff(part, misfitDelay, err)
			work = work[1:]
		case outcome == locked && (part.len() == 1 || locks >= maxLockWaits):
			j.putOff(part, lockedDelay, err)
			work = work[1:]
		case part.len() > 1:
			work = append(part.split(), work[1:]...)
		default:
			j.refuse(part, err)
			work = work[1:]
		}
	}
	return nil
}

// written counts a committed group, and tells those whose changes are in it.
func (j *Journal) written(g group) {
	for _, k := range g.kinds() {
		delete(j.complained, k)
	}
	j.mu.Lock()
	wasAway := !j.stats.Healthy
	j.stats.Healthy = true
	j.stats.Groups++
	j.stats.Written += uint64(g.len())
	pending := j.pending()
	processes, logs := j.processes.dropped, j.logs.dropped
	j.mu.Unlock()
	if wasAway {
		j.log.Info("postgres is back", "waiting", pending, "dropped_processes", processes-j.told.processes, "dropped_logs", logs-j.told.logs)
		j.told.processes, j.told.logs = processes, logs
	}
	for _, c := range values(g.changes) {
		if c.Done != nil {
			c.Done()
		}
	}
}

// wentAway says so once.
func (j *Journal) wentAway(err error) {
	j.mu.Lock()
	wasHealthy := j.stats.Healthy
	j.stats.Healthy = false
	pending := j.pending()
	j.mu.Unlock()
	if wasHealthy {
		j.log.Warn("postgres is away, what is to be written is kept", "error", err, "waiting", pending)
	}
}

// putOff keeps a part of one kind for later, with one log line until something of that kind is written.
func (j *Journal) putOff(g group, delay time.Duration, err error) {
	j.restore(g, time.Now().Add(delay))
	k := g.kinds()[0]
	if !j.complained[k] {
		j.complained[k] = true
		j.log.Warn("journal entries cannot be written now and are tried again", "kind", k.String(), "entries", g.len(), "error", err)
	}
}

// refuse gives up a single entry, or puts it off where it must not be lost.
func (j *Journal) refuse(g group, err error) {
	k := g.kinds()[0]
	r := &j.refusals[k]
	switch k {
	case kindMarks, kindChanges:
		j.putOff(g, refusedDelay, err)
		return
	case kindProcesses:
		p := g.processes[0].value
		r.latest = []any{"source", p.Source, "id", p.ID, "error", err}
	case kindLogs:
		l := g.logs[0].value
		r.latest = []any{"source", l.Source, "message", l.Message, "error", err}
	}
	r.rows++
	j.tell(tellEvery)
	j.mu.Lock()
	j.stats.Refused++
	j.mu.Unlock()
}

// restore puts a group back in front, to be due at a time.
func (j *Journal) restore(g group, notBefore time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.processes.restore(g.processes, notBefore)
	j.marks.restore(g.marks, notBefore)
	j.changes.restore(g.changes, notBefore)
	j.logs.restore(g.logs, notBefore)
}
