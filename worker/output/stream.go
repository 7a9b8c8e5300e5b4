package output

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Stream is the output of one process. Stdout and Stderr are for the child and may be nil, which means /dev/null.
// After the fork, whether it worked or not, call Started; after the exit, or the fork that failed, Drain. Both by one goroutine.
type Stream struct {
	Stdout, Stderr *os.File

	out      *Output
	forward  *Forwarder // nil when lines are not forwarded
	file     *logFile   // nil when there is no log file
	first    uint64     // number of this process's first line in the ring
	own      bool       // Stdout and Stderr are ours to close
	pipes    []*pipe
	draining chan struct{}   // closed by Drain
	hurry    <-chan struct{} // closed when Drain has no more time; set before draining is closed

	started, drained bool // of the caller's goroutine

	closed []byte // what stood in `Spider closed (…)` last; guarded by out.mu
}

// Open makes what a new process of the source writes to. An error is one of the system, as a rule that there are no descriptors left.
func (o *Output) Open() (*Stream, error) {
	o.mu.Lock()
	opts, file, first, ended := o.opts, o.file, o.ring.next, o.ended
	if !ended && file != nil {
		o.sinks.files.hold(file)
	}
	o.mu.Unlock()
	if ended {
		return nil, fmt.Errorf("open output of %q: %w", o.source, errClosed)
	}
	s := &Stream{out: o, file: file, first: first, draining: make(chan struct{})}
	switch {
	case opts.Mode == Inherit:
		s.Stdout, s.Stderr = o.sinks.stdout, o.sinks.stderr
	case opts.Mode != Discard:
		if opts.Mode&Forward != 0 {
			s.forward = o.sinks.forward
		}
		if err := s.openPipes(); err != nil {
			s.Drain(context.Background())
			return nil, fmt.Errorf("open output of %q: %w", o.source, err)
		}
	}
	return s, nil
}

func (s *Stream) openPipes() (err error) {
	s.own = true
	if s.Stdout, err = s.openPipe(Stdout); err != nil {
		return err
	}
	s.Stderr, err = s.openPipe(Stderr)
	return err
}

// openPipe makes a pipe and returns the child's end. That end blocks, as programs expect of their output; ours does not.
func (s *Stream) openPipe(name string) (*os.File, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	child := os.NewFile(uintptr(ends[1]), name)
	p, err := newPipe(s, ends[0], name)
	if err != nil {
		_ = child.Close()
		return nil, err
	}
	s.pipes = append(s.pipes, p)
	return child, nil
}

// Started closes the child's ends here, without which no end of output would ever be seen.
func (s *Stream) Started() {
	if s.started || s.drained {
		return
	}
	s.started = true
	s.closeChildEnds()
}

func (s *Stream) closeChildEnds() {
	if !s.own {
		return
	}
	for _, f := range []*os.File{s.Stdout, s.Stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Drain is called when the process has ended. It takes what the pipes hold and closes them, also when some grandchild still
// holds the other end: what has been written until then is taken, for at most half a second or until ctx ends, and then it is over.
func (s *Stream) Drain(ctx context.Context) {
	if s.drained {
		return
	}
	s.drained = true
	s.hurry = ctx.Done()
	close(s.draining)
	if !s.started {
		s.closeChildEnds()
	}
	var drains sync.WaitGroup
	for _, p := range s.pipes {
		drains.Go(p.drain)
	}
	drains.Wait()
	s.out.sinks.files.release(s.file)
}

// Last returns the last n kept lines of this process, the oldest first.
func (s *Stream) Last(n int) []Line {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.ring.last(n, s.first)
}

// ClosedReason is the REASON of the last `Spider closed (REASON)` that this process wrote, however long ago, or "".
func (s *Stream) ClosedReason() string {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return reasonString(s.closed)
}
