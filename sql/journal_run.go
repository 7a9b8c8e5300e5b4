package sql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	backoffMin     = 100 * time.Millisecond
	backoffMax     = 5 * time.Second
	lastBackoffMax = 500 * time.Millisecond // in the last attempt, which is short
	commitLimit    = 30 * time.Second       // for one transaction; a server that answers nothing counts as away then
)

// Run writes what was accepted until the context ends, then goes on for JournalOptions.LastAttempt at most, until all is written.
// What uses the journal must have ended before. Run is called once; it only returns an error where entries were left.
func (j *Journal) Run(ctx context.Context) error {
	work, cancel := linger(ctx, j.opts.LastAttempt)
	defer cancel()
	backoff := backoffMin
	for j.waitForWork(ctx) {
		if err := j.writeAll(ctx, work); err != nil {
			pause(ctx, backoff)
			backoff = min(2*backoff, backoffMax)
			continue
		}
		backoff = backoffMin
	}
	err := j.finish(work)
	j.tell(0)
	if n := j.Stats().Pending; n > 0 {
		return fmt.Errorf("%d journal entries were not written: %w", n, cmp.Or(err, context.Cause(work), ErrPutOff))
	}
	return nil
}

// finish writes what is left until work ends. It does not wait for what was put off for longer than that. The error is the last one
// of Postgres that was away; nil where it was not.
func (j *Journal) finish(work context.Context) (away error) {
	j.hurry()
	backoff := backoffMin
	for wait := j.untilDue(); wait <= j.opts.LastAttempt; wait = j.untilDue() {
		pause(work, wait)
		if work.Err() != nil {
			break
		}
		if away = j.writeAll(work, work); away != nil {
			pause(work, backoff)
			backoff = min(2*backoff, lastBackoffMax)
		}
	}
	return away
}

// hurry makes due what was put off, and ends the gathering: the end waits.
func (j *Journal) hurry() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting++
	j.processes.hurry()
	j.marks.hurry()
	j.changes.hurry()
	j.logs.hurry()
}

var errTooLate = errors.New("the time for the last attempt is over")

// linger is a context that ends some time after another one has.
func linger(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	lingering, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		pause(lingering, d)
		cancel(errTooLate)
	})
	return lingering, func() { stop(); cancel(nil) }
}

// pause waits for a time, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// waitForWork waits until something is due and then gathers what follows it closely. It is false when the context has ended.
func (j *Journal) waitForWork(ctx context.Context) bool {
	for {
		wait := j.untilDue()
		if wait <= 0 {
			break
		}
		timer := time.NewTimer(min(wait, j.tell(tellEvery)))
		select {
		case <-ctx.Done():
		case <-j.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
	j.gather(ctx)
	return ctx.Err() == nil
}

// gather waits for a group to fill, for a short while, and not where somebody waits for it.
func (j *Journal) gather(ctx context.Context) {
	timer := time.NewTimer(j.opts.Delay)
	defer timer.Stop()
	for j.gathers() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-j.wake:
		}
	}
}

// gathers tells whether there is room and time for more, and then that Run waits for it.
func (j *Journal) gathers() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gathering = !j.complete()
	return j.gathering
}

// untilDue is how long nothing is due; 0 where something is.
func (j *Journal) untilDue() time.Duration {
	const idle = time.Hour
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	due := now.Add(idle)
	due = j.processes.nextDue(due)
	due = j.marks.nextDue(due)
	due = j.changes.nextDue(due)
	due = j.logs.nextDue(due)
	return max(0, due.Sub(now))
}

// writeAll writes groups until nothing is due or ctx has ended. An error means that Postgres is away; nothing was lost.
func (j *Journal) writeAll(ctx, work context.Context) error {
	for ctx.Err() == nil {
		g := j.take()
		if g.len() == 0 {
			return nil
		}
		err := j.settle(work, g)
		j.release()
		j.tell(tellEvery)
		if err != nil {
			return err
		}
		if j.untilDue() <= 0 {
			j.gather(ctx) // what came meanwhile is followed by more
		}
	}
	return nil
}

// take makes the next group.
func (j *Journal) take() group {
	j.mu.Lock()
	defer j.mu.Unlock()
	now, room := time.Now(), j.opts.GroupSize
	var g group
	g.processes = j.processes.take(room, now)
	g.marks = j.marks.take(room-g.len(), now)
	g.changes = j.changes.take(room-g.len(), now)
	g.logs = j.logs.take(room-g.len(), now)
	j.inFlight = g.firstSeq()
	j.gathering = false
	return g
}

// release says that no group is in flight any more, to those who wait in Flush.
func (j *Journal) release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inFlight = 0
	close(j.settled)
	j.settled = make(chan struct{})
}

// commit writes one group in one transaction.
func (j *Journal) commit(ctx context.Context, g group) error {
	ctx, cancel := context.WithTimeout(ctx, commitLimit)
	defer cancel()
	shape, err := j.knownShape(ctx)
	if err != nil {
		return err
	}
	marked, err := j.writer.write(ctx, shape, g)
	if err != nil {
		return err
	}
	for source, n := range marked {
		j.opts.OnMarked(source, n)
	}
	return nil
}

// knownShape looks at the tables once.
func (j *Journal) knownShape(ctx context.Context) (Shape, error) {
	if j.shape != nil {
		return *j.shape, nil
	}
	shape, err := j.writer.check(ctx)
	if errors.Is(err, ErrNotMigrated) {
		return shape, err
	}
	if err != nil {
		return shape, fmt.Errorf("look at the tables: %w", err)
	}
	j.shape = &shape
	if shape.LogProblem != "" {
		j.log.Warn("no rows of ours go into crawl_logs", "reason", shape.LogProblem)
	}
	return shape, nil
}
