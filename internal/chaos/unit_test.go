package chaos

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/internal/testenv/servers"
)

// restartDelay is docker's, before it grows.
const restartDelay = 100 * time.Millisecond

// unit is a manager and its supervisor, which starts it again whenever it ends.
type unit struct {
	r    *round
	name string

	mu       sync.Mutex
	program  *servers.Program // guarded by mu; nil while there is none
	pid      int              // guarded by mu; 0 while there is none
	number   int              // guarded by mu; of this incarnation
	asked    syscall.Signal   // guarded by mu; what this incarnation was sent
	askedAt  time.Time        // guarded by mu
	born     time.Duration    // guarded by mu; when this incarnation was started
	stopped  bool             // guarded by mu; by SIGSTOP
	halted   time.Duration    // guarded by mu; since when, where it is
	halts    []span           // guarded by mu; of this incarnation, those that are over
	changed  time.Time        // guarded by mu; when it was last started, ended, stopped or continued
	termed   atomic.Int64     // pid of the last one that was sent SIGTERM
	starved  atomic.Int64     // pid of the last one that had no descriptor to open
	refusals atomic.Int64     // of a database that was not migrated
	froze    time.Time        // guarded by mu; when it was last stopped or continued
}

func (u *unit) logFile(number int) string {
	return filepath.Join(u.r.dir, fmt.Sprintf("%s-%d.log", u.name, number))
}

// run starts the manager again and again until the round is over.
func (u *unit) run() {
	for u.r.keepsUp() {
		if err := u.start(); err != nil {
			u.r.violated("breaker", u.name, "start manager: "+err.Error())
			return
		}
		<-u.program.Exited()
		u.ended()
		if !u.r.keepsUp() {
			return
		}
		sleep(u.r.t.Context(), restartDelay)
	}
}

func (u *unit) start() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.number++
	argv := []string{u.r.binary, "run", "--config", u.r.conf}
	if u.r.old != nil {
		argv = []string{"/usr/bin/python3", "-m", "oldcrawl.crawler.manager"}
	}
	born := u.r.now()
	p, err := testenv.Start(u.r.t, u.r.environ(u.name), u.logFile(u.number), argv...)
	if err != nil {
		return err
	}
	u.program, u.pid, u.asked, u.stopped, u.changed, u.born, u.halts = p, p.Pid(), 0, false, time.Now(), born, nil
	u.r.note("manager", u.name, fmt.Sprintf("started, pid %d", u.pid))
	return nil
}

// ended judges an end: nobody but a signal ends a manager, except with a reason and a status that is not 0.
func (u *unit) ended() {
	u.mu.Lock()
	state, asked, took, number, pid := u.program.State(), u.asked, time.Since(u.askedAt), u.number, u.pid
	u.halt(false)
	past := life{unit: u.name, from: u.born, to: u.r.now(), halts: u.halts}
	u.pid, u.stopped, u.changed = 0, false, time.Now()
	u.mu.Unlock()
	u.r.note("manager", u.name, "ended: "+state.String())
	status, _ := state.Sys().(syscall.WaitStatus)
	past.killed, past.unwritten = status.Signaled() && status.Signal() == syscall.SIGKILL, u.saysUnwritten(number)
	u.r.bury(past)
	switch {
	case asked == syscall.SIGKILL && status.Signaled():
	case asked == syscall.SIGKILL && u.termed.Load() == int64(pid) && status.Exited() && status.ExitStatus() == 0: // it was faster
	case asked == syscall.SIGTERM && status.Exited() && status.ExitStatus() == 0:
		u.r.measure("9 a manager ends on SIGTERM", stopTimeout+4*time.Second, took, u.name)
	case status.Exited() && status.ExitStatus() == 1 && bytes.Contains(u.lastLine(number), []byte("another manager has taken over")):
		u.r.count("managers that found their key in other hands")
	case status.Exited() && status.ExitStatus() == 2 && u.r.unmigrated.Load() > 0 && bytes.Contains(u.lastLine(number), []byte("the database is not migrated")):
		u.r.count("managers that refused a database that was not migrated")
		u.refusals.Add(1)
	case status.Exited() && status.ExitStatus() == 1 && u.starved.Load() == int64(pid) && bytes.Contains(u.lastLine(number), []byte("too many open files")):
		u.r.count("managers that could not start without descriptors, and said so")
	case asked == syscall.SIGTERM && status.Signaled() && len(u.lastLine(number)) == 0:
		u.r.count("managers that were ended before they began")
	default:
		u.r.violated("9 a manager ends only when asked", u.name, fmt.Sprintf("%s after %v: %s", state, asked, u.lastLine(number)))
	}
}

// halt notes that it is stopped from now on, or not any more. The caller holds mu.
func (u *unit) halt(stop bool) {
	switch {
	case stop && !u.stopped:
		u.halted = u.r.now()
	case !stop && u.stopped:
		u.halts = append(u.halts, span{"stopped", u.halted, u.r.now()})
	}
}

// saysUnwritten tells whether an incarnation said at its end that not all of its journal was written, or that it did not wait for a server.
func (u *unit) saysUnwritten(number int) bool {
	text, _ := os.ReadFile(u.logFile(number))
	return bytes.Contains(text, []byte("journal entries were not written")) || bytes.Contains(text, []byte("a server does not answer; the end does not wait for it"))
}

func (u *unit) lastLine(number int) []byte {
	text, _ := os.ReadFile(u.logFile(number))
	return lastLineOf(text)
}

func lastLineOf(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// signal sends a signal to the incarnation that lives, and false where none does.
func (u *unit) signal(sig syscall.Signal) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pid == 0 {
		return false
	}
	switch sig {
	case syscall.SIGKILL, syscall.SIGTERM:
		if sig == syscall.SIGTERM {
			u.termed.Store(int64(u.pid))
		}
		if u.asked != syscall.SIGKILL {
			u.asked, u.askedAt = sig, time.Now()
		}
	case syscall.SIGSTOP, syscall.SIGCONT:
		u.halt(sig == syscall.SIGSTOP)
		u.stopped, u.changed, u.froze = sig == syscall.SIGSTOP, time.Now(), time.Now()
	}
	return u.program.Signal(sig) == nil
}

// frozen tells whether it is stopped, or was until a moment ago.
func (u *unit) frozen() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pid != 0 && (u.stopped || time.Since(u.froze) < slack*time.Second)
}

// state is who lives, whether it is stopped, whether it was told to end, and for how long all that has been so.
func (u *unit) state() (pid int, stopped, asked bool, since time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pid, u.stopped, u.asked != 0, time.Since(u.changed)
}
