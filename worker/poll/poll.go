package poll

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Poller watches descriptors. Its zero value is ready, and its methods may be called from any goroutine.
type Poller struct {
	mu      sync.Mutex // guards what follows, and the fields of all watches
	epoll   *os.File   // nil while nothing is watched
	fd      int        // of epoll
	watches []*Watch   // by descriptor
	watched int        // how many there are
	turn    int32      // of the last watch
}

// Watch is one descriptor that is watched. Its zero value is for Poller.Watch.
type Watch struct {
	poller *Poller
	fd     int   // -1 after End
	turn   int32 // tells it from those that had the same descriptor before
	ready  func()
}

// oneShot tells that there is something to read or that the other end is gone, once. Again needs no second read to find out
// that there is nothing more: what is there by then is told at once.
const oneShot = unix.EPOLLIN | unix.EPOLLONESHOT

// Watch calls ready, in the poller's goroutine, when fd can be read. ready must not block. The descriptor stays the caller's,
// who calls End before it is closed.
func (p *Poller) Watch(w *Watch, fd int, ready func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil {
		if err := p.open(); err != nil {
			return err
		}
	}
	p.turn++
	*w = Watch{poller: p, fd: fd, turn: p.turn, ready: ready}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, w.event()); err != nil {
		w.fd = -1
		p.closeUnused()
		return fmt.Errorf("watch a descriptor: %w", err)
	}
	for len(p.watches) <= fd {
		p.watches = append(p.watches, nil)
	}
	p.watches[fd] = w
	p.watched++
	return nil
}

func (w *Watch) event() *unix.EpollEvent {
	return &unix.EpollEvent{Events: oneShot, Fd: int32(w.fd), Pad: w.turn}
}

// Again asks to be told once more. It cannot fail for what is watched, and does nothing for what is not.
func (w *Watch) Again() {
	p := w.poller
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.fd >= 0 {
		_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, w.fd, w.event())
	}
}

// End stops watching. It may be called again.
func (w *Watch) End() {
	p := w.poller
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.fd < 0 {
		return
	}
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, w.fd, nil)
	p.watches[w.fd] = nil
	p.watched--
	w.fd = -1
	p.closeUnused()
}

// open makes the epoll and begins to serve it. p is locked.
func (p *Poller) open() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make an epoll: %w", err)
	}
	if err = unix.SetNonblock(fd, true); err != nil { // else the netpoller would not take it
		_ = unix.Close(fd)
		return fmt.Errorf("make an epoll non-blocking: %w", err)
	}
	file := os.NewFile(uintptr(fd), "epoll")
	if err := file.SetReadDeadline(time.Time{}); err != nil { // works only for what is in the netpoller
		_ = file.Close()
		return fmt.Errorf("watch an epoll: %w", err)
	}
	p.epoll, p.fd = file, fd
	go p.serve(file)
	return nil
}

// closeUnused ends serve when nothing is watched any more. p is locked.
func (p *Poller) closeUnused() {
	if p.watched == 0 {
		_ = p.epoll.Close()
		p.epoll, p.watches = nil, nil
	}
}

// serve tells what happens in an epoll until it is closed.
func (p *Poller) serve(epoll *os.File) {
	conn, err := epoll.SyscallConn()
	if err != nil {
		return // closed already
	}
	events := make([]unix.EpollEvent, 128)
	var ready []func()
	for {
		n := 0
		if err := conn.Read(func(fd uintptr) bool { n = take(int(fd), events); return n > 0 }); err != nil {
			return
		}
		ready = p.told(epoll, events[:n], ready[:0])
		for _, f := range ready {
			f()
		}
	}
}

// take returns how many events there are now.
func take(epoll int, events []unix.EpollEvent) int {
	for {
		n, err := unix.EpollWait(epoll, events, 0)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0)
		}
	}
}

// told adds who is to be told.
func (p *Poller) told(epoll *os.File, events []unix.EpollEvent, ready []func()) []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll != epoll {
		return ready
	}
	for _, e := range events {
		if w := p.watches[e.Fd]; w != nil && w.turn == e.Pad {
			ready = append(ready, w.ready)
		}
	}
	return ready
}
