package output

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Mode says where the lines of a crawler go. Forward and File can be joined with |.
type Mode uint8

const (
	// Discard gives the crawler /dev/null: no pipe, no last lines.
	Discard Mode = 0
	// Forward writes lines to the manager's standard error.
	Forward Mode = 1
	// File writes lines to a log file.
	File Mode = 2
	// Inherit gives the crawler the manager's own standard output and standard error: no pipe, no last lines.
	Inherit Mode = 4
)

// Options is where the lines of a source go.
type Options struct {
	Mode Mode
	File FileOptions // only with File
}

func (o Options) check() error {
	switch {
	case o.Mode&^(Forward|File|Inherit) != 0:
		return fmt.Errorf("unknown output mode %d", o.Mode)
	case o.Mode&Inherit != 0 && o.Mode != Inherit:
		return errors.New("output mode inherit goes with no other")
	case o.Mode&File != 0 && o.File.Path == "":
		return errors.New("output mode file needs a path")
	}
	return nil
}

// Output is what one source prints. It outlives the source's processes. Its methods may be called by any goroutine.
type Output struct {
	sinks  *Sinks
	source string
	closed chan struct{}
	share  share // guarded by the Forwarder

	lines, bytes, cutLines, cutBytes  atomic.Uint64
	lostForward, lostFile, lostFollow atomic.Uint64

	mu        sync.Mutex // guards what follows
	opts      Options
	file      *logFile // nil without File
	ended     bool     // closed is closed
	ring      ring
	followers []*follower
	lastAt    time.Time
}

// Stats are the counters of a source, over all its processes; they only grow. Lines that standard error refused with an error are
// counted by the Forwarder alone.
type Stats struct {
	Lines, Bytes                      uint64 // lines that were read, and bytes of them that were kept
	CutLines, CutBytes                uint64 // lines that were cut, and bytes that were dropped by it
	LostForward, LostFile, LostFollow uint64 // lines that did not reach standard error, the log file, a follower
}

// Configure says where the lines go of every process that is opened from now on.
func (o *Output) Configure(opts Options) error {
	if err := opts.check(); err != nil {
		return fmt.Errorf("configure output of %q: %w", o.source, err)
	}
	var file *logFile
	if opts.Mode&File != 0 {
		file = o.sinks.files.acquire(opts.File)
	}
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		o.sinks.files.release(file)
		return fmt.Errorf("configure output of %q: %w", o.source, errClosed)
	}
	o.opts, o.file, file = opts, file, o.file
	o.mu.Unlock()
	o.sinks.files.release(file)
	return nil
}

var errClosed = errors.New("output is closed")

// Close lets the log file go and ends the followers. Streams that are open still work until they are drained.
func (o *Output) Close() {
	o.mu.Lock()
	ended, file := o.ended, o.file
	o.ended, o.file = true, nil
	o.mu.Unlock()
	if ended {
		return
	}
	close(o.closed)
	o.sinks.files.release(file)
}

// Last returns the last n lines of those that are kept, the oldest first; they may be of several processes.
func (o *Output) Last(n int) []Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ring.last(n, 0)
}

// Tail returns the kept lines as text, at most 8 KiB.
func (o *Output) Tail() []byte {
	var b []byte
	for _, l := range o.Last(math.MaxInt) {
		b = appendPlain(b, l.Text, l.Cut)
	}
	return b
}

// LastLineAt says when the last line was read; the zero time when there was none. It can be compared with time.Since: it is monotonic.
func (o *Output) LastLineAt() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lastAt
}

// Stats returns the counters.
func (o *Output) Stats() Stats {
	return Stats{
		Lines: o.lines.Load(), Bytes: o.bytes.Load(),
		CutLines: o.cutLines.Load(), CutBytes: o.cutBytes.Load(),
		LostForward: o.lostForward.Load(), LostFile: o.lostFile.Load(), LostFollow: o.lostFollow.Load(),
	}
}
