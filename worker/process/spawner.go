package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"crawlkeeper/worker/borrowed"
	"crawlkeeper/worker/poll"
)

// Options of a Spawner.
type Options struct {
	Name   string // who starts the trees; with Scope it makes the fingerprint
	Scope  string // what keeps two managers of one name apart, e.g. the Redis address and prefix
	Logger *slog.Logger

	// Ways are the only ways of finding processes that may be used; empty is all that work here.
	Ways []Way
	// Step is a program and its first arguments that passes the rest of them to ExecStep. Without it, starts that
	// need the step fail.
	Step []string
	// Keys deletes keys that processes registered, at their end. Nil: they cannot be given back.
	Keys borrowed.Keys
}

// Spawner starts processes and ends their trees. All methods may be called from any goroutine.
type Spawner struct {
	means
	logger *slog.Logger
	slot   *slot
	step   []string
	lookup *looker
	oom    *oomWatch
	null   *os.File
	keys   borrowed.Keys
	claims claims
	poller poll.Poller // of all pidfds

	crowd crowd
	temps spares[owner, borrowed.Place] // directories for temporary files

	ownTable func(keep int) error // gives the forking thread its table; tests refuse it

	turns  chan struct{} // slots for starts that hold descriptors
	forks  chan *forkRequest
	sweeps chan *tree
	ended  chan struct{} // closed when the forking thread has ended

	// Blocking calls hold an OS thread each, and thousands of processes start and end at once: few at a time.
	files *filing       // calls that change directories
	facts chan struct{} // slots for reading /proc
	gifts chan struct{} // slots for giving back what crawlers registered, which may lie on a mount that hangs
	ends  chan struct{} // slots for calls about one process, which are short: but on a busy machine each thread that makes one may be kept waiting

	live     atomic.Int64  // processes that were started and are not swept
	passes   atomic.Uint64 // looks at the orphans
	unmarked atomic.Uint64

	toldQuota     atomic.Bool    // that not all limits are held by cgroups
	noCgroupLines rate.Sometimes // that a cgroup could not be made
}

// turnSlots is enough to keep the forking thread busy: it forks one after the other. More would be threads that wait for the kernel.
const turnSlots = 8

// factSlots, giftSlots and endSlots bound the threads that wait for the kernel.
const (
	factSlots = 2
	giftSlots = 4
	endSlots  = 2
)

// New tests what this machine offers and takes the lock file of this name. It refuses kernels without pidfd (before
// 5.10), and Options.Ways that do not work here.
func New(o Options) (*Spawner, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a child subreaper: %w", err)
	}
	// What we were started with beyond the three standard descriptors is no crawler's business either. (Linux 5.11.)
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err := tryPidfd(); err != nil {
		return nil, err
	}
	slot, err := takeSlot(o.Name, o.Scope)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unlock(slot.lock, true)
		return nil, fmt.Errorf("open the null device: %w", err)
	}
	means, err := chooseWays(o.Ways, slot.prefix)
	if err != nil {
		null.Close()
		unlock(slot.lock, true)
		return nil, err
	}
	return &Spawner{
		means: means, logger: o.Logger, slot: slot, step: o.Step, lookup: lookups, oom: newOOMWatch(), null: null, keys: o.Keys, ownTable: ownTable,
		turns: make(chan struct{}, turnSlots), forks: make(chan *forkRequest), sweeps: make(chan *tree), ended: make(chan struct{}),
		files: newFiling(fileLimit), facts: make(chan struct{}, factSlots), gifts: make(chan struct{}, giftSlots),
		ends: make(chan struct{}, endSlots), noCgroupLines: rate.Sometimes{Interval: time.Minute},
	}, nil
}

// Ways tells what this machine offers, and what is used of it.
func (s *Spawner) Ways() Ways { return s.ways }

// Prefix is the part of the fingerprint that all trees of this Spawner share.
func (s *Spawner) Prefix() uint32 { return s.slot.prefix }

// Unmarked counts orphans that bore no mark and were left alone, as they may be a living tree's or a stranger's.
func (s *Spawner) Unmarked() uint64 { return s.unmarked.Load() }

// Passes counts the looks at the orphans, so that their cost can be watched: there are none at rest.
func (s *Spawner) Passes() uint64 { return s.passes.Load() }

// Run forks, reaps and sweeps until the context ends. End every process first: the kernel kills the leaders of all that
// still run when the forking thread ends, and nobody sweeps their trees then.
func (s *Spawner) Run(ctx context.Context) error {
	defer s.null.Close()
	defer func() { unlock(s.slot.lock, s.live.Load() == 0) }()
	defer s.DropSpares() // while the name is ours
	defer s.NoSpares()
	if s.cgroups != nil {
		defer s.cgroups.close()
		defer s.cgroups.dropSpares()
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	var threads sync.WaitGroup
	threads.Go(func() { s.runForks(ctx) })
	newKeeper(s).run(ctx, signals)
	threads.Wait()
	return nil
}

// offMainThread calls f on a locked thread that is not the main one: orphans are adopted by the main thread, and only
// while programs are forked by another one can the two kinds of children be told apart. The thread ends with f.
func offMainThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return // still locked: the thread ends with this goroutine
	}
	done := make(chan struct{})
	go func() { // runs elsewhere, as the main thread is held by the lock above
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
	runtime.UnlockOSThread()
}

// within calls f while it holds one of the slots.
func within(slots chan struct{}, f func()) {
	slots <- struct{}{}
	defer func() { <-slots }()
	f()
}
