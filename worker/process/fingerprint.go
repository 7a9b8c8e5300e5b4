package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// forking is held around each fork of this operating system process: while the limit is set to a tree's number every
// child inherits it, whoever forks. More than one Spawner in a process is a matter of tests.
var forking sync.Mutex

// fingerprint is the resource limit that bears the numbers of trees, and the numbers.
type fingerprint struct {
	limit
	prefix  uint32
	plain   uint64 // the soft limit of what bears no number
	room    uint64 // where the hard limit is small: numbers are below it and above half of it; 0 is 63 bits
	counter atomic.Uint32
}

// limit is a resource limit, and how /proc/PID/limits calls it.
type limit struct {
	resource int
	line     string
}

var (
	locksLimit    = limit{unix.RLIMIT_LOCKS, "Max file locks"}
	msgqueueLimit = limit{unix.RLIMIT_MSGQUEUE, "Max msgqueue size"}
)

// leastRoom is what a small hard limit must allow: more numbers than trees that may live at once.
const leastRoom = 1 << 18

// newFingerprint tests whether a limit can bear numbers here. A small hard limit is raised where that is allowed, and
// used as it is where narrow says so.
func newFingerprint(l limit, prefix uint32, narrow bool) (*fingerprint, error) {
	forking.Lock()
	defer forking.Unlock()
	var old unix.Rlimit
	if err := unix.Prlimit(0, l.resource, nil, &old); err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	f := &fingerprint{limit: l, prefix: prefix, plain: old.Cur}
	f.counter.Store(rand.Uint32()) // what an earlier manager left must not bear the number of a tree of ours
	if old.Max != unix.RLIM_INFINITY && unix.Prlimit(0, l.resource, &unix.Rlimit{Cur: old.Cur, Max: unix.RLIM_INFINITY}, nil) != nil {
		if !narrow || old.Max < leastRoom {
			return nil, fmt.Errorf("its hard limit is %d here", old.Max)
		}
		f.room = old.Max
	}
	number, seen := f.next(), uint64(0)
	if !f.stamped(number, func() { seen, _ = l.of(os.Getpid()) }) || seen != number {
		return nil, errors.New("it cannot be set here")
	}
	return f, nil
}

// next makes the number of a tree. Small ones come again, without the prefix: the registry tells which are taken, and they
// mean something only on what descends from us.
func (f *fingerprint) next() uint64 {
	n := uint64(f.counter.Add(1))
	if f.room == 0 {
		return uint64(f.prefix)<<32 | n
	}
	number := f.room - 1 - n%(f.room/2)
	if number == f.plain {
		return f.next()
	}
	return number
}

// of reads the limit of a process. False where there is none, or where it may not be read.
func (f *fingerprint) of(pid int) (uint64, bool) {
	if f == nil {
		return unix.RLIM_INFINITY, true
	}
	return f.limit.of(pid)
}

// stamped calls fork while this process bears the number, and tells whether it does. The caller holds forking.
func (f *fingerprint) stamped(number uint64, fork func()) bool {
	var old unix.Rlimit
	if f == nil || unix.Prlimit(0, f.resource, nil, &old) != nil {
		fork()
		return false
	}
	set := unix.Prlimit(0, f.resource, &unix.Rlimit{Cur: number, Max: old.Max}, nil) == nil
	fork()
	if set {
		_ = unix.Prlimit(0, f.resource, &old, nil) // what could be lowered can be raised to the hard limit again
	}
	return set
}
