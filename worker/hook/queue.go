package hook

import (
	"context"
	"sync"
	"time"
)

// Queue runs jobs that nobody waits for. Its methods may be called from any goroutine.
type Queue struct {
	bound  int // most jobs, those that run included
	atOnce int
	ctx    context.Context //nolint:containedctx // the life of the jobs, which ends with Run
	end    context.CancelFunc

	mu      sync.Mutex                         // guards all below
	waiting map[string][]func(context.Context) // by key; a key is there while one of its jobs runs or waits
	ready   []string                           // keys of which no job runs and one waits
	jobs    int
	runners int
	ended   bool
	changed chan struct{} // closed and replaced when a job has ended
}

// NewQueue makes a queue that holds so many jobs and runs so many at once.
func NewQueue(bound, atOnce int) *Queue {
	q := &Queue{bound: bound, atOnce: atOnce, waiting: map[string][]func(context.Context){}, changed: make(chan struct{})}
	q.ctx, q.end = context.WithCancel(context.Background())
	return q
}

// Put accepts a job. It is false where there is no room, or the queue has ended: the job never runs then. A job that is
// accepted is called, though maybe with a context that has ended.
func (q *Queue) Put(key string, job func(context.Context)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || q.jobs >= q.bound {
		return false
	}
	q.jobs++
	others, busy := q.waiting[key]
	q.waiting[key] = append(others, job)
	if !busy {
		q.ready = append(q.ready, key)
	}
	if q.runners < q.atOnce && len(q.ready) > 0 {
		q.runners++
		go q.work()
	}
	return true
}

// work runs jobs until none is ready.
func (q *Queue) work() {
	for {
		key, job := q.next()
		if job == nil {
			return
		}
		job(q.ctx)
		q.done(key)
	}
}

func (q *Queue) next() (string, func(context.Context)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		q.runners--
		q.tell()
		return "", nil
	}
	key := q.ready[0]
	q.ready = q.ready[1:]
	job := q.waiting[key][0]
	q.waiting[key] = q.waiting[key][1:]
	return key, job
}

func (q *Queue) done(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs--
	if len(q.waiting[key]) > 0 {
		q.ready = append(q.ready, key)
	} else {
		delete(q.waiting, key)
	}
	q.tell()
}

// tell wakes those who wait for a change. The caller holds mu.
func (q *Queue) tell() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Len counts the jobs that wait or run.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs
}

// Below waits until fewer than n jobs wait or run, or the context ends, whose error it then returns.
func (q *Queue) Below(ctx context.Context, n int) error {
	return q.until(ctx, func() bool { return q.jobs < n })
}

func (q *Queue) until(ctx context.Context, ok func() bool) error {
	for {
		q.mu.Lock()
		fine, changed := ok(), q.changed
		q.mu.Unlock()
		if fine {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endLimit is how long Run waits for jobs that were told to end.
const endLimit = time.Second

// Run ends with its context. Jobs that run are told to end, and those that wait are called with a context that has ended;
// what takes longer than a second is not waited for.
func (q *Queue) Run(ctx context.Context) error {
	<-ctx.Done()
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.end()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	_ = q.until(bounded, func() bool { return q.runners == 0 }) // who is late is left behind
	return nil
}
