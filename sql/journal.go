package sql

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// ErrPutOff says that the database refuses what is to be written for now: its row is locked, a right is missing, a table does not
// fit. It is kept and tried again.
var ErrPutOff = errors.New("what is to be written was put off, the database refuses it for now")

// JournalOptions are the journal's settings; zero fields mean the defaults.
type JournalOptions struct {
	Delay       time.Duration              // how long a group is gathered that nobody waits for: 50 ms
	GroupSize   int                        // entries in one transaction: 1,000
	Bound       int                        // most waiting process rows, and log lines: 10,000 each
	LastAttempt time.Duration              // how long Run goes on writing after its context has ended: 3 s
	OnMarked    func(source string, n int) // called by Run for each source of which runs were marked; must not block
	Logger      *slog.Logger               // the store's
}

// Journal takes what the fleet writes and commits it in groups. Accepting never waits for the database and may happen from any
// goroutine, also before Run begins; after Run has ended it is in vain. While Postgres is away entries stay: the process rows
// of one id, the marks and the changes of one source become one entry each. Marks and changes are never dropped, process rows and
// log lines beyond the bound are, the oldest first, and are counted.
type Journal struct {
	writer writer
	opts   JournalOptions
	log    *slog.Logger
	wake   chan struct{} // one slot: something was accepted

	mu        sync.Mutex // guards all below
	processes *queue[string, Process]
	marks     *queue[string, marks]
	changes   *queue[string, SourceChange]
	logs      *queue[uint64, LogLine]
	accepted  uint64        // number of the last accepted entry
	inFlight  uint64        // number of the oldest entry that Run has taken and not settled; 0 = none
	settled   chan struct{} // closed and replaced whenever Run has settled something
	waiting   int           // calls of Flush, and Run's own end
	gathering bool          // Run is woken only by what ends that
	stats     JournalStats

	// Run's own.
	shape      *Shape // nil = unknown
	complained map[kind]bool
	refusals   [4]refusals // by kind
	told       struct {    // dropped beyond the bound, as far as the log says so
		processes, logs uint64
		at              time.Time
	}
}

// JournalStats are counters since the start, and what is waiting now.
type JournalStats struct {
	Pending          int    // entries that wait, put off ones included
	Groups           uint64 // transactions that were committed
	Written          uint64 // entries in them
	Refused          uint64 // process rows and log lines that the database refused for good
	DroppedProcesses uint64 // beyond the bound
	DroppedLogs      uint64
	Healthy          bool // the last commit succeeded, or there was none yet
}

// NewJournal makes a journal for a store.
func NewJournal(store *Store, opts JournalOptions) *Journal {
	if opts.Logger == nil {
		opts.Logger = store.log
	}
	return newJournal(store, opts)
}

func newJournal(w writer, opts JournalOptions) *Journal {
	opts = opts.withDefaults()
	return &Journal{
		writer:     w,
		opts:       opts,
		log:        opts.Logger,
		wake:       make(chan struct{}, 1),
		processes:  newQueue[string](opts.Bound, laterProcess),
		marks:      newQueue[string](0, mergeMarks),
		changes:    newQueue[string](0, laterChange),
		logs:       newQueue[uint64](opts.Bound, func(_, later LogLine) LogLine { return later }),
		settled:    make(chan struct{}),
		stats:      JournalStats{Healthy: true},
		complained: make(map[kind]bool),
	}
}

func (o JournalOptions) withDefaults() JournalOptions {
	if o.Delay == 0 {
		o.Delay = 50 * time.Millisecond
	}
	if o.GroupSize == 0 {
		o.GroupSize = 1000
	}
	if o.Bound == 0 {
		o.Bound = 10_000
	}
	if o.LastAttempt == 0 {
		o.LastAttempt = 3 * time.Second
	}
	if o.OnMarked == nil {
		o.OnMarked = func(string, int) {}
	}
	return o
}

// Process accepts the state of a process. The row is written whole; a state never goes back behind one that was accepted.
func (j *Journal) Process(p Process) {
	j.accept(func(seq uint64) { j.processes.put(p.ID, p, seq) })
}

// Log accepts a row for crawl_logs.
func (j *Journal) Log(l LogLine) {
	j.accept(func(seq uint64) { j.logs.put(seq, l, seq) })
}

// Mark accepts that a crawler has ended. Its runs get the end of the first mark after their start.
func (j *Journal) Mark(m Mark) {
	j.accept(func(seq uint64) { j.marks.put(m.Source, marks{m}, seq) })
}

// MarkLost accepts, at the start of a manager, that no crawler of these sources was alive at a time: runs that were started before
// it, or at no known time, are interrupted and get it as their end.
func (j *Journal) MarkLost(sources []string, at time.Time, text string) {
	for _, source := range sources {
		j.Mark(Mark{Source: source, Ended: at, FinishedAt: at, Error: text, lost: true})
	}
}

// Change accepts what is to be written about a source.
func (j *Journal) Change(c SourceChange) {
	j.accept(func(seq uint64) { j.changes.put(c.Source, c, seq) })
}

func (j *Journal) accept(put func(seq uint64)) {
	j.mu.Lock()
	j.accepted++
	put(j.accepted)
	wake := !j.gathering || j.complete()
	j.mu.Unlock()
	if wake {
		j.wakeUp()
	}
}

func (j *Journal) wakeUp() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// complete tells that a group need not be gathered any longer. The caller holds mu.
func (j *Journal) complete() bool { return j.waiting > 0 || j.pending() >= j.opts.GroupSize }

// Flush waits until what was accepted so far is committed, or dropped for good. It returns ErrPutOff as soon as all that is left
// of it was put off, by whomever it was accepted, and the context's cause when that ends the wait.
func (j *Journal) Flush(ctx context.Context) error {
	j.mu.Lock()
	last := j.accepted
	j.waiting++
	j.mu.Unlock()
	j.wakeUp()
	defer func() {
		j.mu.Lock()
		j.waiting--
		j.mu.Unlock()
	}()
	for {
		left, settled := j.left(last)
		switch left {
		case nothingLeft:
			return nil
		case putOffLeft:
			return ErrPutOff
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// remainder is what has become of the entries up to a number.
type remainder int

const (
	nothingLeft remainder = iota
	putOffLeft            // only entries that were put off
	workLeft
)

// left tells what is not settled of the entries up to a number, and what is closed when that may have changed.
func (j *Journal) left(last uint64) (remainder, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	left := nothingLeft
	if j.inFlight > 0 && j.inFlight <= last {
		left = workLeft
	}
	return max(left, j.processes.left(last), j.marks.left(last), j.changes.left(last), j.logs.left(last)), j.settled
}

// Stats tells how the journal is doing.
func (j *Journal) Stats() JournalStats {
	j.mu.Lock()
	defer j.mu.Unlock()
	stats := j.stats
	stats.Pending = j.pending()
	stats.DroppedProcesses, stats.DroppedLogs = j.processes.dropped, j.logs.dropped
	return stats
}

// pending counts what waits. The caller holds mu.
func (j *Journal) pending() int {
	return j.processes.len() + j.marks.len() + j.changes.len() + j.logs.len()
}
