package process

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Marker is the environment variable that names the process that a program belongs to. Every program gets it, and
// inherits it to what it starts.
const Marker = "CRAWLKEEPER_PROCESS_ID"

// Spec says what to start. It is not changed by this package.
type Spec struct {
	ID       string   // names the process in its environment and its temporary directory; unique
	Argv     []string // program and arguments; never passed through a shell
	Dir      string   // working directory; empty is the manager's own
	Env      []string // the whole environment, "KEY=value"
	TempRoot string   // where the process gets a TMPDIR of its own, removed at its end; empty is none
	Stdin    *os.File // nil is /dev/null, as for the two others
	Stdout   *os.File
	Stderr   *os.File
}

// Exit tells how a leader ended.
type Exit struct {
	Code    int            // exit status, -1 if a signal ended it
	Signal  syscall.Signal // the signal that ended it, 0 if none did
	At      time.Time      // when its end was seen
	Ran     time.Duration  // from the fork to its end
	CPUTime time.Duration  // user and system time, of children that it waited for too
}

// String says it in words: "exit 3" or "signal killed".
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
	Swept []Survivor // ended by the sweep
	Left  []Survivor // still there: state D, or no permission to signal them
}

// StartError is a start that failed. The program never ran.
type StartError struct {
	Program string
	Reason  string // in words, with what to do where that is known
	Err     error
}

func (e *StartError) Error() string { return fmt.Sprintf("start %s: %s", e.Program, e.Reason) }

// Unwrap gives the cause, usually a syscall.Errno.
func (e *StartError) Unwrap() error { return e.Err }
