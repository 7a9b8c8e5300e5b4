package output

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"crawlkeeper/worker/poll"
)

const (
	// partialBytes bounds the unfinished lines of all pipes together, less the first 16 KiB of each.
	partialBytes = 64 << 20
	// fileWriters serve all log files, so that a stuck disk holds this many threads.
	fileWriters = 4
	// flushLimit bounds how long the end of Run waits for what is still to be written.
	flushLimit = 2 * time.Second
)

// SinksOptions is what Sinks need. The zero value works.
type SinksOptions struct {
	// Forwarder takes lines for the manager's standard error. Nil makes one that writes text to it.
	Forwarder *Forwarder
	// Stdout and Stderr are what crawlers inherit. Nil means the manager's own.
	Stdout, Stderr *os.File
	// Logger tells about log files. It must not block on a slow standard error: build its handler on the Forwarder.
	// Nil discards.
	Logger *slog.Logger
}

// Sinks is what the crawlers of one manager share: buffers for reading, the Forwarder and the writers of log files.
// Its methods may be called by any goroutine.
type Sinks struct {
	forward        *Forwarder
	files          *files
	stdout, stderr *os.File
	workspaces     workspaces
	poller         poll.Poller // of all pipes
	partials       budget
}

// NewSinks makes Sinks. Nothing is written before Run is called.
func NewSinks(opts SinksOptions) (*Sinks, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Forwarder == nil {
		stderr, err := OwnStderr()
		if err != nil {
			return nil, err
		}
		opts.Forwarder = NewForwarder(stderr, Text)
	}
	s := &Sinks{
		forward:    opts.Forwarder,
		files:      newFiles(opts.Logger),
		stdout:     opts.Stdout,
		stderr:     opts.Stderr,
		workspaces: newWorkspaces(),
		partials:   budget{limit: partialBytes},
	}
	if s.stdout == nil {
		s.stdout = os.Stdout
	}
	if s.stderr == nil {
		s.stderr = os.Stderr
	}
	return s, nil
}

// Run writes what the crawlers print until ctx ends; end it after the last Drain. Then what still waits is written, for at most two seconds:
// an error says that standard error or a disk is stuck and lines were left behind.
func (s *Sinks) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.forward.run(ctx) })
	running.Go(func() { s.files.keepOld(ctx) })
	for writer := range fileWriters {
		running.Go(func() { s.files.serve(writer) })
	}
	<-ctx.Done()
	defer s.files.slow.end()
	s.files.stop()
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return s.files.close()
	case <-time.After(flushLimit):
		s.forward.abandon()
		return fmt.Errorf("flush the crawlers' output: %w", errStuck)
	}
}

var errStuck = errors.New("standard error or a log file is stuck")

// Output makes the Output of a source. Close it when the source is gone.
func (s *Sinks) Output(source string, opts Options) (*Output, error) {
	o := &Output{sinks: s, source: source, closed: make(chan struct{})}
	if err := o.Configure(opts); err != nil {
		return nil, err
	}
	return o, nil
}

// Stats returns what was lost since the start, of all sources together.
func (s *Sinks) Stats() SinkStats {
	return SinkStats{
		ForwardLost: s.forward.Lost(),
		FileLost:    s.files.lost.Load(),
		FileErrors:  s.files.errors.Load(),
	}
}

// SinkStats are counters; they only grow.
type SinkStats struct {
	ForwardLost uint64 // lines that standard error did not take in time
	FileLost    uint64 // lines that a disk did not take, or not in time
	FileErrors  uint64 // failed attempts to open, write, rotate or compress a log file
}
