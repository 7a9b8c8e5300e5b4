package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"crawlkeeper/worker/process"
)

// Spec says what to run.
type Spec struct {
	Process process.Spec           // Stdin, Stdout and Stderr are set by Run
	Input   []byte                 // goes to standard input, which then ends
	Keep    int                    // bytes of output to keep, the last ones
	Timeout time.Duration          // until it is ended; 0 is none
	Started func(*process.Process) // is told once it runs; must not block; may be nil
}

// sweepLimit bounds how long Run waits for the end of what the program has left.
const sweepLimit = 5 * time.Second

// ErrTimeout says that a program was ended because it took too long.
var ErrTimeout = errors.New("it took too long and was ended")

// Result is how the program ended and what it left.
type Result struct {
	Exit    process.Exit
	Output  []byte // the last of what it wrote to both streams, in the order in which it came
	Written int64  // bytes in all
	Report  process.Report
	Peak    int64 // bytes of memory, the highest seen; 0 is unknown
}

// Run runs a program and ends what it started. The error says that it could not be started (*process.StartError), that
// it was ended (ErrTimeout, the context's error), or that something of it cannot be ended; the result holds then what is
// known. An exit status other than 0 is no error.
func Run(ctx context.Context, s *process.Spawner, spec Spec) (Result, error) {
	if spec.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Timeout, ErrTimeout)
		defer cancel()
	}
	pipes, err := openPipes()
	if err != nil {
		return Result{}, err
	}
	defer pipes.close()
	ps := spec.Process
	ps.Stdin, ps.Stdout, ps.Stderr = pipes.stdin, pipes.out, pipes.out
	p, err := s.Start(ctx, ps)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Result{}, err
	}
	pipes.given()
	if spec.Started != nil {
		spec.Started(p)
	}
	return finish(ctx, p, spec, pipes)
}

func finish(ctx context.Context, p *process.Process, spec Spec, pipes *pipes) (Result, error) {
	kept := tail{limit: spec.Keep}
	var streams sync.WaitGroup
	streams.Go(func() { pipes.feed(spec.Input) })
	streams.Go(func() { kept.readAll(pipes.ours) })
	var err error
	select {
	case <-p.Exited():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepLimit)
	defer cancel()
	report, swept := p.Sweep(bounded)
	if swept != nil {
		pipes.close() // somebody may still hold the other ends
		err = errors.Join(err, fmt.Errorf("end a program: %w (left: %v)", swept, report.Left))
	}
	pipes.endFeed()
	streams.Wait()
	r := Result{Output: kept.bytes(), Written: kept.written, Report: report, Peak: p.Peak()}
	select {
	case <-p.Exited():
		r.Exit = p.Exit()
	default: // it cannot be killed
		r.Exit.Code = -1
	}
	return r, err
}

// tail keeps the last of what is read. It belongs to one goroutine.
type tail struct {
	limit   int
	buf     []byte
	written int64
}

func (t *tail) readAll(f *os.File) {
	chunk := make([]byte, 16<<10)
	for {
		n, err := f.Read(chunk)
		t.add(chunk[:n])
		if err != nil {
			return
		}
	}
}

func (t *tail) add(data []byte) {
	t.written += int64(len(data))
	t.buf = append(t.buf, data...)
	if len(t.buf) > 2*t.limit {
		t.buf = append(t.buf[:0], t.bytes()...)
	}
}

func (t *tail) bytes() []byte { return t.buf[max(0, len(t.buf)-t.limit):] }
