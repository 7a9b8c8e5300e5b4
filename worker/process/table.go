package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A fork copies the table of descriptors of the thread that forks, and the exec closes what is in the copy: with thousands of
// pipes and pidfds that costs more than all the rest of a start. So the forking thread has a table of its own with next to
// nothing in it. What a child gets is handed over to it through a socket, and closed after the fork.
//
// On that thread numbers of descriptors mean something else than elsewhere: nothing may be opened there and closed by others, or
// the other way round, and nothing may go into the netpoller.

// handover is the socket pair by which descriptors come to the forking thread.
type handover struct {
	send    int // in everybody's table
	receive int // in the forking thread's, closed with the thread
}

// runForks forks until the context ends, by a thread with a table of its own where the kernel lets it have one.
func (s *Spawner) runForks(ctx context.Context) {
	defer close(s.ended)
	if err := s.forkApart(ctx); err != nil {
		s.logger.Info("the more crawlers run the longer a start takes here: the forking thread cannot have descriptors of its own", "reason", err)
		offMainThread(func() { s.forkLoop(ctx, s.forks, nil) })
	}
}

// forkApart is runForks with a table of its own. An error says that there is none, and that nothing was forked.
func (s *Spawner) forkApart(ctx context.Context) error {
	if err := startNetpoller(); err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket pair: %w", err)
	}
	h := &handover{send: pair[0], receive: pair[1]}
	apart, handed := make(chan error, 1), make(chan *forkRequest, turnSlots) // so that the thread goes on without being woken for each
	var thread sync.WaitGroup
	thread.Go(func() {
		offMainThread(func() {
			err := s.ownTable(h.receive)
			apart <- err
			if err == nil {
				s.forkLoop(ctx, handed, h)
			}
		})
	})
	err = <-apart
	unix.Close(h.receive)
	if err == nil {
		s.carry(ctx, h, handed)
	}
	unix.Close(h.send)
	thread.Wait()
	refuse(handed)
	return err
}

// refuse answers the requests that nobody takes any more.
func refuse(handed <-chan *forkRequest) {
	for len(handed) > 0 {
		r := <-handed
		r.err = ErrStopped
		close(r.done)
	}
}

// startNetpoller has the Go runtime open what it needs on every thread, so that a table that is copied has it.
func startNetpoller() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	return errors.Join(r.Close(), w.Close())
}

// ownTable gives the calling thread a table of descriptors of its own. It keeps the standard ones, the one that is named, and the
// netpoller's: any thread may be the one that looks at it, after a collection of garbage. After an error the thread is of no use.
func ownTable(keep int) error {
	const none = 1 << 30 // there is no descriptor of so high a number: nothing is closed by it
	if err := unix.CloseRange(none, none, unix.CLOSE_RANGE_UNSHARE); err != nil {
		return fmt.Errorf("copy the table of descriptors: %w", err)
	}
	const dir = "/proc/thread-self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the descriptors: %w", err)
	}
	var netpoller int
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 || fd == keep {
			continue
		}
		switch what, _ := os.Readlink(dir + "/" + e.Name()); what {
		case "anon_inode:[eventpoll]", "anon_inode:[eventfd]":
			netpoller++
		default:
			unix.Close(fd) // the one of the list is closed already
		}
	}
	if netpoller < 2 {
		return errors.New("the netpoller's descriptors were not found")
	}
	return nil
}

// carry gives the descriptors of each request to the forking thread, and then the request. While a fork is under way it does
// so for the next.
func (s *Spawner) carry(ctx context.Context, h *handover, handed chan<- *forkRequest) {
	for {
		select {
		case r := <-s.forks:
			if r.err = h.give(r.attr); r.err != nil {
				close(r.done)
				continue
			}
			select {
			case handed <- r:
			case <-ctx.Done():
				r.err = ErrStopped
				close(r.done)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// give hands over the descriptors of a request.
func (h *handover) give(attr *syscall.ProcAttr) error {
	var fds []int
	for _, fd := range attr.Files {
		fds = append(fds, int(fd))
	}
	if attr.Sys.UseCgroupFD {
		fds = append(fds, attr.Sys.CgroupFD)
	}
	for {
		err := unix.Sendmsg(h.send, []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		switch err {
		case unix.EINTR:
		case unix.ETOOMANYREFS: // our user has as many on their way as a process may have open
			return fmt.Errorf("hand over descriptors: %w", unix.EMFILE)
		default:
			return err
		}
	}
}

// take returns the attributes of a request with the numbers that its descriptors have on the forking thread, and these numbers.
func (h *handover) take(attr *syscall.ProcAttr) (*syscall.ProcAttr, []int, error) {
	want := len(attr.Files)
	if attr.Sys.UseCgroupFD {
		want++
	}
	fds, err := h.receiveSome(want)
	if err == nil && len(fds) != want {
		err = fmt.Errorf("%d of %d descriptors came to the forking thread: %w", len(fds), want, syscall.EMFILE)
	}
	if err != nil {
		return nil, fds, err
	}
	here, sys := *attr, *attr.Sys
	sys.PidFD = nil // it would be here, and is wanted elsewhere
	if here.Sys = &sys; sys.UseCgroupFD {
		sys.CgroupFD = fds[want-1]
	}
	here.Files = slices.Clone(attr.Files)
	for i := range here.Files {
		here.Files[i] = uintptr(fds[i])
	}
	return &here, fds, nil
}

func (h *handover) receiveSome(n int) ([]int, error) {
	rights := make([]byte, unix.CmsgSpace(4*n))
	for {
		_, size, _, _, err := unix.Recvmsg(h.receive, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := unix.ParseSocketControlMessage(rights[:size])
		if err != nil || len(messages) == 0 {
			return nil, err
		}
		return unix.ParseUnixRights(&messages[0])
	}
}
