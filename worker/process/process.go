package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crawlkeeper/worker/borrowed"
	"crawlkeeper/worker/poll"
)

// Process is one incarnation of a program with all that it starts. Its methods may be called from any goroutine.
type Process struct {
	spawner   *Spawner
	path      string
	pid       int
	startTime uint64
	started   time.Time
	user      *borrowed.Owner // as whom it runs; nil is we
	place     borrowed.Place  // an empty Root: it has no directory for temporary files
	terms     *borrowed.Terms // nil: it has no list
	cgroup    *cgroup         // that it was started in, which is another tree's perhaps once the leader has ended; nil: none

	pidfd  *os.File
	conn   syscall.RawConn
	watch  poll.Watch // of pidfd
	exited chan struct{}
	exit   Exit                   // written by ended before it closes exited
	onExit atomic.Pointer[func()] // whoever takes it out calls it
	killed atomic.Bool
	peak   atomic.Int64

	sweep  sync.Once
	tree   *tree
	reaped chan struct{}
	kept   []borrowed.Kept // written before reaped is closed
}

// Pid of the leader; not used again before Sweep has ended.
func (p *Process) Pid() int { return p.pid }

// Binary is the file that was found for the program's name.
func (p *Process) Binary() string { return p.path }

// Fingerprint is the number that the tree bears, 0 where it bears none.
func (p *Process) Fingerprint() uint64 {
	if p.spawner.finger == nil {
		return 0
	}
	return p.tree.number
}

// StartTime in clock ticks since boot, from /proc.
func (p *Process) StartTime() uint64 { return p.startTime }

// Started is when the fork returned.
func (p *Process) Started() time.Time { return p.started }

// Exited is closed when the leader has ended. What it started may still live: see Sweep.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// OnExit calls f, by another goroutine or at once, when Exited is closed. f must not block. To be called once.
func (p *Process) OnExit(f func()) {
	p.onExit.Store(&f)
	select {
	case <-p.exited:
		p.tellExit()
	default:
	}
}

func (p *Process) tellExit() {
	if f := p.onExit.Swap(nil); f != nil {
		(*f)()
	}
}

// Exit tells how the leader ended. To be called after Exited is closed.
func (p *Process) Exit() Exit {
	<-p.exited
	return p.exit
}

// open takes over the pidfd and has it watched.
func (p *Process) open(r *forkRequest) error {
	if r.pidfd < 0 {
		return cmp.Or(r.unwatched, errors.New("the kernel gave no pidfd"))
	}
	p.pidfd = os.NewFile(uintptr(r.pidfd), "pidfd") // blocking: else it would go into the runtime's poller too
	conn, err := p.pidfd.SyscallConn()
	if err == nil {
		p.conn = conn
		err = p.spawner.poller.Watch(&p.watch, r.pidfd, func() { go within(p.spawner.ends, p.look) })
	}
	if err != nil {
		p.pidfd.Close()
	}
	return err
}

// siginfo is siginfo_t of waitid(2) as far as it is filled for SIGCHLD, on 64-bit machines.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

// lookAgain is the pause after a look at a leader that has ended and cannot be waited for yet, as somebody traces it.
const lookAgain = 50 * time.Millisecond

// look is called when the leader seems to have ended. It stays a zombie, so that its pid is not used again, until it was
// swept. A Watch tells once, so there is one look at a time.
func (p *Process) look() {
	var info siginfo
	var usage unix.Rusage
	var failed error
	err := p.conn.Control(func(fd uintptr) {
		for failed = unix.EINTR; failed == unix.EINTR; {
			failed = unix.Waitid(unix.P_PIDFD, int(fd), (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, &usage)
		}
	})
	if err = cmp.Or(err, failed); err == nil && info.pid == 0 {
		time.AfterFunc(lookAgain, p.watch.Again)
		return
	}
	p.ended(info, usage, err)
}

// ended tells everybody that the leader has ended.
func (p *Process) ended(info siginfo, usage unix.Rusage, err error) {
	p.exit = Exit{Code: -1, At: time.Now()}
	p.exit.Ran = p.exit.At.Sub(p.started)
	switch {
	case err != nil:
		p.spawner.logger.Error("a process could not be waited for", "pid", p.pid, "error", err)
	case info.code == 1: // CLD_EXITED
		p.exit.Code = int(info.status)
	default: // CLD_KILLED, CLD_DUMPED
		p.exit.Signal = syscall.Signal(info.status)
	}
	p.exit.CPUTime = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	p.exit.OOM = p.outOfMemory()
	p.exit.Full = p.exit.OOM && p.tree.cgroup != nil && p.tree.cgroup.ranOut()
	p.spawner.oom.look(p.exit.At) // what moved by now explains no later end
	p.raisePeak(peakOf(usage))
	close(p.exited)
	p.tellExit()
}

// outOfMemory tells whether the leader's end by SIGKILL, which we have not sent, goes with a counter that moved.
func (p *Process) outOfMemory() bool {
	if p.exit.Signal != syscall.SIGKILL || p.killed.Load() {
		return false
	}
	if g := p.tree.cgroup; g != nil && g.oomKills() > 0 {
		return true
	}
	return p.spawner.oom.took(p.exit.At)
}

// Signal sends a signal to the leader alone. A leader that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	var sent, err error
	within(p.spawner.ends, func() {
		err = p.conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	})
	if err != nil || errors.Is(sent, unix.ESRCH) { // closed after the sweep, or ended
		return nil
	}
	if sent != nil {
		return fmt.Errorf("send %s to pid %d: %w", unix.SignalName(sig), p.pid, sent)
	}
	return nil
}

// Ask asks the leader to end: the signal, and SIGCONT in case that it is stopped. What the tree uses is sampled first,
// as it is never more.
func (p *Process) Ask(sig syscall.Signal) error {
	p.Sample()
	return errors.Join(p.Signal(sig), p.Signal(syscall.SIGCONT))
}

// Terminate is Ask with SIGTERM.
func (p *Process) Terminate() error { return p.Ask(syscall.SIGTERM) }

// Kill sends SIGKILL to the leader alone.
func (p *Process) Kill() error {
	p.killed.Store(true)
	return p.Signal(syscall.SIGKILL)
}

// Sweep ends the leader with SIGKILL if it still lives, then everything that it started, and waits until nothing is
// left. It tries on until the context ends, whose error it then returns together with what is left, or ErrGivingBack; it
// may be called again then. Once it has succeeded, the leader is reaped and what was taken for the process was given back.
func (p *Process) Sweep(ctx context.Context) (Report, error) {
	if err := p.endLeader(ctx); err != nil {
		return Report{Left: []Survivor{{p.pid, p.path}}}, err
	}
	p.sweep.Do(func() {
		select {
		case p.spawner.sweeps <- p.tree:
			go p.release()
		case <-p.spawner.ended:
			close(p.tree.done)
			go p.release()
		}
	})
	select {
	case <-p.reaped:
		report := p.tree.report()
		report.Kept = p.kept
		return report, nil
	case <-ctx.Done():
	}
	select {
	case <-p.tree.done:
		return p.tree.report(), ErrGivingBack
	default:
		return p.tree.report(), ctx.Err()
	}
}

// endLeader kills a leader that still lives. One that has ended is not signalled: a zombie of another user, which a setuid
// program leaves, would refuse it.
func (p *Process) endLeader(ctx context.Context) error {
	select {
	case <-p.exited:
		return nil
	default:
	}
	p.Sample()
	if err := p.Kill(); err != nil {
		select {
		case <-p.exited:
			return nil
		default:
			return err
		}
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release gives back what the process held, once nothing of its tree is left.
func (p *Process) release() {
	<-p.tree.done
	p.spawner.live.Add(-1)
	within(p.spawner.ends, func() {
		reapLeader(p.pid)
		living.remove(p.tree)
		p.watch.End()
		p.pidfd.Close()
	})
	p.kept = p.giveBack()
	p.spawner.claims.drop(p.tree.id)
	close(p.reaped)
}
