package output

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainLimit bounds the reading after the exit, for a grandchild that goes on writing.
	drainLimit = 500 * time.Millisecond
	// pauseLimit is how long a reader waits for a place that works but is slower than the crawler, for each 64 KiB.
	pauseLimit = 100 * time.Millisecond
)

// pipe is our end of one of a process's two pipes. It belongs to the goroutine that runs it, but for interrupt.
type pipe struct {
	stream *Stream
	name   string // Stdout or Stderr
	file   *os.File
	raw    syscall.RawConn
	lines  splitter
	state  pipeState
	room   <-chan struct{} // with pipeHeld: what to wait for
	until  time.Time       // how long a read is held back at most; zero while none is
}

// pipeState is what the last read said.
type pipeState uint8

const (
	pipeMore  pipeState = iota // there may be more
	pipeEmpty                  // nothing there now
	pipeHeld                   // not read, as a place where the lines go falls behind
	pipeEnded                  // nobody holds the other end, or it is broken
)

// newPipe takes over the descriptor and puts it into the netpoller.
func newPipe(s *Stream, fd int, name string) (*pipe, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make a pipe non-blocking: %w", err)
	}
	sinks := s.out.sinks
	p := &pipe{stream: s, name: name, lines: splitter{max: MaxLine, memory: &sinks.partials}}
	p.file = os.NewFile(uintptr(fd), name)
	raw, err := p.file.SyscallConn()
	if err == nil {
		err = p.file.SetReadDeadline(time.Time{}) // works only for what is in the netpoller
	}
	if err != nil {
		_ = p.file.Close()
		return nil, fmt.Errorf("watch a pipe: %w", err)
	}
	p.raw = raw
	return p, nil
}

// run reads until the pipe ends or Drain is called, and hands on every line.
func (p *pipe) run() {
	read := p.read
	for p.state != pipeEnded {
		if err := p.raw.Read(read); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				p.state = pipeEnded
			}
			break
		}
		if p.state == pipeHeld {
			p.awaitRoom(p.stream.draining)
		}
	}
	p.takeRest()
	ws := p.stream.out.sinks.workspaces.take()
	ws.finish(p)
	p.stream.out.sinks.workspaces.put(ws)
	_ = p.file.Close()
}

// interrupt makes run stop waiting. Any goroutine may call it.
func (p *pipe) interrupt() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }

// read reads once. It is called by the netpoller's side when there is something, and holds a buffer no longer than it runs.
// False means that it has to be called again when there is more.
func (p *pipe) read(fd uintptr) bool {
	pool := p.stream.out.sinks.workspaces
	ws := pool.take()
	defer pool.put(ws)
	if p.hold() {
		p.state = pipeHeld
		return true
	}
	n, err := readAgain(int(fd), ws.raw[:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		p.state = pipeEmpty
		return false
	case err != nil || n == 0:
		p.state = pipeEnded
	default:
		p.state = pipeMore
		ws.deliver(p, ws.raw[:n])
	}
	return true
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
	if p.state == pipeEnded {
		return
	}
	<-p.stream.draining // closed already
	until := time.Now().Add(drainLimit)
	for p.state = pipeMore; p.state == pipeMore || p.state == pipeHeld; {
		if p.state == pipeHeld {
			p.awaitRoom(p.stream.hurry)
		}
		if closed(p.stream.hurry) {
			p.until = time.Unix(1, 0) // one read, whether there is room or not
		}
		if err := p.raw.Control(func(fd uintptr) { p.read(fd) }); err != nil {
			return
		}
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
