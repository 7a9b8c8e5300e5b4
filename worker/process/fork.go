package process

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type forkRequest struct {
	path  string
	argv  []string
	attr  *syscall.ProcAttr
	tree  *tree
	quota Quota
	cpus  []int
	done  chan struct{}

	pid       int
	pidfd     int
	unwatched error // why there is no pidfd
	err       error
	at        time.Time
}

// textBusyTries bounds how often a program whose file is just being written is tried again (golang/go#22315).
const (
	textBusyTries = 5
	textBusyPause = 5 * time.Millisecond
)

// forkLoop is what the forking thread does. h is nil where it has the same table of descriptors as all others.
func (s *Spawner) forkLoop(ctx context.Context, forks <-chan *forkRequest, h *handover) {
	promptly()
	for {
		select {
		case r := <-forks:
			s.forkWith(r, h)
			close(r.done)
		case <-ctx.Done():
			return
		}
	}
}

// forkWith forks with the descriptors that were handed over.
func (s *Spawner) forkWith(r *forkRequest, h *handover) {
	if h == nil {
		s.fork(r, r.attr)
		return
	}
	attr, fds, err := h.take(r.attr)
	if r.err = err; err == nil {
		s.fork(r, attr)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
}

func (s *Spawner) fork(r *forkRequest, attr *syscall.ProcAttr) {
	living.births.RLock()
	defer living.births.RUnlock()
	forking.Lock()
	dumpable := 0
	if attr.Sys.Credential != nil {
		dumpable, _ = unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	}
	before := SinceBoot()
	s.finger.stamped(r.tree.number, func() {
		var err error
		if e := pinned(r.cpus, func() { r.pid, err = syscall.ForkExec(r.path, r.argv, attr) }); e != nil {
			err = e
		}
		r.err = err
	})
	after := SinceBoot()
	if dumpable == 1 {
		// Until its exec a child shares our memory, and its change of user made that undumpable.
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	forking.Unlock()
	r.at = time.Now()
	if r.err == nil {
		living.born(r.tree, r.pid, startBetween(r.pid, before, after))
	}
}

// startBetween is the start time of a child, in clock ticks since boot. As the kernel takes it in the middle of a fork, it is known
// without a look into /proc where both ends of the fork lie in one tick; every start waits for the forking thread.
func startBetween(pid int, before, after time.Duration) uint64 {
	const tick = time.Second / ticksPerSecond
	if before/tick == after/tick {
		return uint64(before / tick)
	}
	st, _ := readStat(pid)
	return st.start
}

// SinceBoot is a clock that also runs while the machine sleeps, and is never set.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // cannot fail on a kernel that has pidfds
	return time.Duration(ts.Nano())
}

// attempt has the forking thread fork once.
func (s *Spawner) attempt(ctx context.Context, r *forkRequest) error {
	r.pidfd, r.done = -1, make(chan struct{})
	r.attr.Sys.PidFD = &r.pidfd
	select {
	case s.forks <- r:
	case <-s.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	<-r.done
	if r.err == nil && r.pidfd < 0 { // its number is its own until we reap it
		r.pidfd, r.unwatched = unix.PidfdOpen(r.pid, 0)
	}
	return r.err
}

// forkTree forks the leader of a tree, with a second try for what passes by itself.
func (s *Spawner) forkTree(ctx context.Context, r *forkRequest) error {
	err := s.inCgroup(ctx, r)
	for try := 1; errors.Is(err, syscall.ETXTBSY) && try < textBusyTries; try++ {
		select {
		case <-time.After(textBusyPause << try):
		case <-ctx.Done():
			return ctx.Err()
		}
		err = s.inCgroup(ctx, r)
	}
	return err
}

// inCgroup forks into a cgroup of the tree's own where that can be had. Some machines let directories be made and
// nothing be put into them: then cgroups are given up for good.
func (s *Spawner) inCgroup(ctx context.Context, r *forkRequest) error {
	if s.cgroups == nil || s.cgroups.failed.Load() {
		return s.attempt(ctx, r)
	}
	g, err := s.cgroups.make()
	if err != nil {
		s.noCgroupLines.Do(func() { s.logger.Warn("a cgroup could not be made, which is said once a minute", "error", err) })
		if r.quota.CPU > 0 {
			return noShare(err)
		}
		return s.attempt(ctx, r)
	}
	g.plain = r.quota == Quota{} && len(r.cpus) == 0
	left, err := s.cgroups.hold(g, r.quota, r.cpus)
	if err != nil {
		g.forked()
		s.cgroups.drop(g)
		return noShare(err)
	}
	if left != nil && !s.toldQuota.Swap(true) {
		s.logger.Info("not all limits can be held by cgroups here; trees are watched for them", "reason", left)
	}
	r.attr.Sys.UseCgroupFD, r.attr.Sys.CgroupFD = true, g.fd
	err = s.attempt(ctx, r)
	r.attr.Sys.UseCgroupFD = false
	g.forked()
	if err == nil {
		r.tree.cgroup = g
		return nil
	}
	s.cgroups.drop(g)
	if !errors.Is(err, syscall.ETXTBSY) && !errors.Is(err, syscall.EMFILE) && errors.As(err, new(syscall.Errno)) {
		first := err
		if r.quota.CPU > 0 {
			return noShare(first)
		}
		if err = s.attempt(ctx, r); err == nil && !g.again && !s.cgroups.failed.Swap(true) { // one that was used may be spoilt
			s.logger.Warn("processes cannot be put into cgroups here", "error", first)
		}
	}
	return err
}

// noShare is a start that is refused as its share of the processor cannot be held.
func noShare(err error) error {
	return &StartError{Reason: "its share of the processor cannot be held: " + err.Error(), Err: err}
}

// fileOf is what a standard stream of a program is.
func (s *Spawner) fileOf(f *os.File) uintptr {
	if f == nil {
		f = s.null
	}
	return f.Fd()
}

// requestFor makes the request that starts a program directly.
func (s *Spawner) requestFor(spec *Spec, t *tree, found program) *forkRequest {
	return &forkRequest{path: found.path, argv: spec.Argv, tree: t, quota: spec.Quota, cpus: spec.CPUs, attr: &syscall.ProcAttr{
		Dir: spec.Dir, Env: found.env,
		Files: []uintptr{s.fileOf(spec.Stdin), s.fileOf(spec.Stdout), s.fileOf(spec.Stderr)},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: found.user},
	}}
}

// reapLeader takes the status of a leader that has ended or is about to.
func reapLeader(pid int) {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
}
