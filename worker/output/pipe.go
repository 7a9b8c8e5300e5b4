package output

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/worker/poll"
)

const (
	// drainLimit bounds the reading after the exit, for a grandchild that goes on writing.
	drainLimit = 500 * time.Millisecond
	// pauseLimit is how long a reader waits for a place that works but is slower than the crawler, for each 64 KiB.
	pauseLimit = 100 * time.Millisecond
)

// pipe is our end of one of a process's two pipes. What changes belongs to whoever holds turn: the goroutine that the poller
// starts when there is something to read, and in the end the drain.
type pipe struct {
	stream *Stream
	name   string // Stdout or Stderr
	file   *os.File
	fd     int // of file, which is closed by close alone
	watch  poll.Watch

	turn  sync.Mutex
	lines splitter
	state pipeState
	room  <-chan struct{} // with pipeHeld: what to wait for
	until time.Time       // how long a read is held back at most; zero while none is
}

// pipeState is what the last read said.
type pipeState uint8

const (
	pipeMore  pipeState = iota // there may be more
	pipeEmpty                  // nothing there now
	pipeHeld                   // not read, as a place where the lines go falls behind
	pipeEnded                  // nobody holds the other end, or it is broken
)

// newPipe takes over the descriptor and has it watched.
func newPipe(s *Stream, fd int, name string) (*pipe, error) {
	sinks := s.out.sinks
	p := &pipe{stream: s, name: name, fd: fd, lines: splitter{max: MaxLine, memory: &sinks.partials}}
	p.file = os.NewFile(uintptr(fd), name) // still blocking: else it would go into the netpoller too
	err := unix.SetNonblock(fd, true)
	if err == nil {
		err = sinks.poller.Watch(&p.watch, fd, func() { go p.run() })
	}
	if err != nil {
		_ = p.file.Close()
		return nil, fmt.Errorf("watch a pipe: %w", err)
	}
	return p, nil
}

// run hands on every line until there is nothing more to read now, or Drain is called.
func (p *pipe) run() {
	p.turn.Lock()
	defer p.turn.Unlock()
	for p.state != pipeEnded && !closed(p.stream.draining) {
		p.read()
		switch p.state {
		case pipeHeld:
			p.awaitRoom(p.stream.draining)
		case pipeEmpty:
			p.watch.Again()
			return
		case pipeEnded:
			p.close()
		}
	}
}

// drain takes what is left after the process has ended, and closes the pipe.
func (p *pipe) drain() {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.state != pipeEnded {
		p.takeRest()
		p.close()
	}
}

// close hands on the line that the pipe ended in. The caller holds turn.
func (p *pipe) close() {
	p.state = pipeEnded
	ws := p.stream.out.sinks.workspaces.take()
	defer p.stream.out.sinks.workspaces.put(ws) // also while it is closed: thousands at once are a few threads
	ws.finish(p)
	p.watch.End()
	_ = p.file.Close()
}

// read reads once, if the places where the lines go allow it. It holds a buffer no longer than it runs.
func (p *pipe) read() {
	pool := p.stream.out.sinks.workspaces
	ws := pool.take()
	defer pool.put(ws)
	if p.hold() {
		p.state = pipeHeld
		return
	}
	n, err := readAgain(p.fd, ws.raw[:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		p.state = pipeEmpty
	case err != nil || n == 0:
		p.state = pipeEnded
	default:
		p.state = pipeMore
		ws.deliver(p, ws.raw[:n])
	}
}

func readAgain(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// takeRest reads what the pipe still holds after the process has ended, without waiting for more.
func (p *pipe) takeRest() {
	until := time.Now().Add(drainLimit)
	for p.state = pipeMore; p.state == pipeMore || p.state == pipeHeld; {
		if p.state == pipeHeld {
			p.awaitRoom(p.stream.hurry)
		}
		if closed(p.stream.hurry) {
			p.until = time.Unix(1, 0) // one read, whether there is room or not
		}
		p.read()
		if time.Now().After(until) || closed(p.stream.hurry) {
			return
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hold says whether to wait before the next read, as a place that works falls behind. For one that is stuck nothing waits. It is asked
// with a workspace in hand: there are few of those, so that not all readers find the same room and then lack it.
func (p *pipe) hold() bool {
	s := p.stream
	p.room = nil
	if s.forward != nil {
		p.room = s.forward.room(s.out)
	}
	if s.file != nil && p.room == nil {
		p.room = s.file.room()
	}
	now := time.Now()
	switch {
	case p.room == nil:
		p.until = time.Time{}
		return false
	case p.until.IsZero():
		p.until = now.Add(pauseLimit)
		return true
	case now.Before(p.until):
		return true
	}
	p.until = time.Time{}
	return false
}

// awaitRoom waits until there may be room, the time is over or stop is closed.
func (p *pipe) awaitRoom(stop <-chan struct{}) {
	select {
	case <-p.room:
	case <-time.After(time.Until(p.until)):
	case <-stop:
	}
}
