package process

import (
	"os"

	"github.com/google/uuid"

	"crawlkeeper/worker/borrowed"
)

// Marker is the environment variable that names the process that a program belongs to. Every program gets it, and
// inherits it to what it starts.
const Marker = "CRAWLKEEPER_PROCESS_ID"

// Spec says what to start. It is not changed by this package.
type Spec struct {
	ID       string          // names the process in its environment and its temporary directory; unique
	Argv     []string        // program and arguments; never passed through a shell
	Dir      string          // working directory; empty is the manager's own
	Env      []string        // the whole environment, "KEY=value"
	TempRoot string          // where the process gets a TMPDIR of its own, removed at its end; empty is none
	Track    *borrowed.Terms // what the process may register besides; needs a TempRoot; nil is nothing. Completed by Start, in a copy
	Stdin    *os.File        // nil is /dev/null, as for the two others
	Stdout   *os.File
	Stderr   *os.File
	Streams  Streams // makes the last two, in their place; nil: they are there

	// User and Group to run as, each a name or a number; empty is the manager's. A user comes with its groups, all of
	// them; its own group is replaced by Group where that is given. A user that no account has needs a Group.
	User  string
	Group string

	Quota Quota // what the kernel holds the tree to, where it can
	CPUs  []int // the only processors that the program starts with; nil is the manager's

	// These are set by a step of our own before the program (see ExecStep), which costs a millisecond or two. Nil is
	// as the manager has it.
	Umask   *int              // file mode bits that new files do not get
	Nice    *int              // -20 to 19, absolute
	Rlimits map[string]Rlimit // by the names of RlimitNames
}

// Streams are opened just before a program is forked, so that thousands of starts that wait for their turn hold no descriptors.
type Streams interface {
	Open() (stdout, stderr *os.File, err error)
	Forked() // what was opened is the program's, or needed no more; called once after each Open that succeeded
}

// stepped tells that the program is to be started through the step.
func (s *Spec) stepped() bool { return s.Umask != nil || s.Nice != nil || len(s.Rlimits) > 0 }

// Rlimit is a resource limit as setrlimit(2) takes it; Unlimited is none.
type Rlimit struct {
	Soft uint64
	Hard uint64
}

// Unlimited is no limit at all.
const Unlimited = ^uint64(0)

// NewID is an id for a process that is about to be started: a UUIDv7, so that they sort by time.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil { // the system's random source is broken
		id = uuid.New()
	}
	return id.String()
}
