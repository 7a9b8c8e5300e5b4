package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// script is the crawler: it says its code and its pid, and waits for ever. A signal ends it.
const script = `echo "$0 $$" >"$BENCH_STARTS"; read -r never <"$BENCH_NEVER"`

// start is what a crawler has said.
type start struct {
	code string
	pid  int
	at   time.Time // when that was read
}

// starts takes what crawlers say.
type starts struct {
	fifo  *os.File
	never string // a FIFO into which nobody writes
	begin string // a FIFO of which all wait that are to begin together
	seen  chan start
}

// newStarts makes the FIFOs. Crawlers write whole lines: they are shorter than PIPE_BUF.
func newStarts(dir string, n int) (*starts, error) {
	path, never, begin := filepath.Join(dir, "starts"), filepath.Join(dir, "never"), filepath.Join(dir, "begin")
	for _, p := range []string{path, never, begin} {
		if err := unix.Mkfifo(p, 0o600); err != nil {
			return nil, fmt.Errorf("make %s: %w", p, err)
		}
	}
	fifo, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0) // for writing too, so that it never ends
	if err != nil {
		return nil, fmt.Errorf("open FIFO: %w", err)
	}
	_, _ = unix.FcntlInt(fifo.Fd(), unix.F_SETPIPE_SZ, 1<<20) // the usual size does too
	_ = unix.SetNonblock(int(fifo.Fd()), true)                // Fd has made it blocking
	s := &starts{fifo: fifo, never: never, begin: begin, seen: make(chan start, 4*n+100)}
	go s.read()
	return s, nil
}

func (s *starts) read() {
	for lines := bufio.NewScanner(s.fifo); lines.Scan(); {
		said := start{at: time.Now()}
		if _, err := fmt.Sscan(lines.Text(), &said.code, &said.pid); err == nil {
			s.seen <- said
		}
	}
}

func (s *starts) close() { _ = s.fifo.Close() }

// environ is what a crawler has to know.
func (s *starts) environ() []string {
	return []string{"BENCH_STARTS=" + s.fifo.Name(), "BENCH_NEVER=" + s.never, "BENCH_GO=" + s.begin}
}

// letGo lets all begin that wait for it.
func (s *starts) letGo() error {
	fifo, err := os.OpenFile(s.begin, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open FIFO: %w", err)
	}
	return fifo.Close()
}

// startLimit is how long crawlers have to start.
const startLimit = 5 * time.Minute

// wait returns the next n starts.
func (s *starts) wait(ctx context.Context, n int, failed <-chan struct{}) ([]start, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var out []start
	for len(out) < n {
		select {
		case one := <-s.seen:
			out = append(out, one)
		case <-failed:
			return nil, errors.New("the manager ended")
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d crawlers have started: %w", len(out), n, context.Cause(ctx))
		}
	}
	return out, nil
}
