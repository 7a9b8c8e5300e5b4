package process

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/worker/borrowed"
)

// Exit tells how a leader ended.
type Exit struct {
	Code    int            // exit status, -1 if a signal ended it
	Signal  syscall.Signal // the signal that ended it, 0 if none did
	OOM     bool           // the kernel killed it for want of memory: the counter of its cgroup, or of ours, moved
	Full    bool           // with OOM: its own cgroup was full, at the Quota's memory
	At      time.Time      // when its end was seen
	Ran     time.Duration  // from the fork to its end
	CPUTime time.Duration  // user and system time, of children that it waited for too
}

// String says it in words: "exit 3" or "signal SIGKILL".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal " + unix.SignalName(e.Signal)
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// Survivor is a descendant that had to be ended, or that could not be.
type Survivor struct {
	Pid  int
	Name string
}

// Report is what a sweep found.
type Report struct {
	Swept []Survivor      // ended by the sweep
	Left  []Survivor      // still there: state D, or no permission to signal them
	Kept  []borrowed.Kept // what was taken for the process and could not be given back
}
