package output

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	forwardBytes = 4 << 20          // what may wait for standard error
	shareBytes   = forwardBytes / 4 // what one source may have of it
	reserveBytes = 256 << 10        // what the manager's own log may have beyond it
	stalledAfter = time.Second      // a place that finished nothing for so long is stuck
)

// Forwarder writes whole lines of all crawlers, and of the manager's log, to one place, in one goroutine. Its methods may be called by any goroutine.
type Forwarder struct {
	w      io.Writer
	format Format
	wake   chan struct{} // holds one token when lines wait
	lost   atomic.Uint64

	direct sync.Mutex // held while Write writes by itself

	mu       sync.Mutex // guards what follows
	phase    forwardPhase
	pending  []byte
	round    uint64        // how often pending was taken
	roomMade chan struct{} // closed when pending is taken; nil while nobody waits
	since    time.Time     // when the write under way began; zero when there is none
	losses
}

type forwardPhase uint8

const (
	forwardIdle forwardPhase = iota // Run was not called yet
	forwardRunning
	forwardEnded
	forwardStuck // ended while a write hung
)

// share is how much of what waits belongs to one source. It is guarded by the Forwarder.
type share struct {
	round uint64
	bytes int
}

// losses remembers what is still to be mentioned.
type losses struct {
	fresh     int // lines lost since pending was last taken
	untold    int // lines lost before, not yet mentioned
	mentioned time.Time
	failed    bool // the last write did not work
	torn      bool // it ended inside a line
}

// NewForwarder makes a Forwarder that writes to w. It is run by the Run of the Sinks that it is given to.
func NewForwarder(w io.Writer, format Format) *Forwarder {
	return &Forwarder{w: w, format: format, wake: make(chan struct{}, 1)}
}

// OwnStderr opens the manager's standard error under another number. Go ends a program that writes to descriptor 1 or 2 when nobody reads it any
// more; through this one it is an error like any other.
func OwnStderr() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(unix.Stderr), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("open standard error again: %w", err)
	}
	return os.NewFile(uintptr(fd), "stderr"), nil
}

// Lost says how many lines were lost since the start.
func (f *Forwarder) Lost() uint64 { return f.lost.Load() }

// Write takes whole lines of the manager's own log, so that they do not tear those of crawlers and a stuck standard error
// does not stop the manager. While the Sinks run it never blocks, and lines that find no room are lost and counted; before and after, it writes by itself.
// It always returns len(b) and no error then.
func (f *Forwarder) Write(b []byte) (int, error) {
	f.mu.Lock()
	switch f.phase {
	case forwardRunning:
		if len(f.pending) >= forwardBytes+reserveBytes {
			f.lose(nil, countLines(b))
		} else {
			f.add(b)
		}
		f.mu.Unlock()
		return len(b), nil
	case forwardStuck:
		f.mu.Unlock()
		return len(b), nil
	default:
		f.mu.Unlock()
		f.direct.Lock()
		defer f.direct.Unlock()
		return f.w.Write(b)
	}
}

// push takes lines of a crawler. It never blocks.
func (f *Forwarder) push(o *Output, b batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := f.shareOf(o)
	if f.phase >= forwardEnded || len(f.pending) >= forwardBytes || *used >= shareBytes {
		f.lose(o, b.lines)
		return
	}
	*used += len(b.data)
	f.add(b.data)
}

// shareOf returns how much of pending belongs to the source. f is locked.
func (f *Forwarder) shareOf(o *Output) *int {
	if o.share.round != f.round {
		o.share = share{round: f.round}
	}
	return &o.share.bytes
}

// add is called with f locked.
func (f *Forwarder) add(b []byte) {
	f.pending = append(f.pending, b...)
	f.rouse()
}

// lose is called with f locked; o is nil for the manager's log.
func (f *Forwarder) lose(o *Output, lines int) {
	f.fresh += lines
	f.lost.Add(uint64(lines))
	if o != nil {
		o.lostForward.Add(uint64(lines))
	}
}

func (f *Forwarder) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// room returns a channel that is closed when there is room again for the source; nil when there is room, or when there is no use in waiting.
func (f *Forwarder) room(o *Output) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase != forwardRunning || (len(f.pending) < forwardBytes/2 && *f.shareOf(o) < shareBytes/2) {
		return nil
	}
	if !f.since.IsZero() && time.Since(f.since) > stalledAfter {
		return nil
	}
	if f.roomMade == nil {
		f.roomMade = make(chan struct{})
	}
	return f.roomMade
}
