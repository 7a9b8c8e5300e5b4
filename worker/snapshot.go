package worker

import (
	"time"

	"crawlkeeper/worker/borrowed"
	"crawlkeeper/worker/process"
)

// Snapshot is what others see of a worker. It is never changed once it is published.
type Snapshot struct {
	Phase        Phase
	Pid          int       // 0 without a process
	ProcessID    string    // of the process that runs, else of the last one
	StartedAt    time.Time // of the last process; stays after its exit; zero before the first
	UpAt         time.Time // since when that one was up, which where somebody watches it is later; zero before that
	Restarts     int       // starts after the first
	BackoffUntil time.Time // zero unless in backoff or cooling
	LastExit     *Exit
	Unwell       string    // why it is unhealthy or stalled
	Trouble      *Trouble  // nil where there is none, and once a crawler was up for Delay.Stable
	Since        time.Time // of the last change of phase
}

// Exit is how the last process ended.
type Exit struct {
	process.Exit
	Cause Cause
	Error string // of a start that failed
	Why   string // it had to be ended, or ran out of memory
}

// Move is a change of phase.
type Move struct {
	Source   string
	From, To Phase
	Cause    Cause // of the end that it belongs to, if it does
	At       time.Time
}

// Status of an Incarnation.
const (
	StatusQueued  = "queued"
	StatusRunning = "running"
	StatusEnded   = "ended"  // the leader is gone, what it started is being swept
	StatusExited  = "exited" // nothing is left
)

// Incarnation is the evidence of one process, told at each change of its status.
type Incarnation struct {
	ID          string
	Source      string
	Status      string
	Argv        []string
	Binary, Dir string
	Pid         int
	StartTime   uint64
	Fingerprint uint64
	QueuedAt    time.Time
	StartedAt   time.Time
	EndedAt     time.Time
	By          string // who asked for the start, then for the end
	Cause       Cause
	Exit        process.Exit
	Error       string        // of a start that failed
	Why         string        // it had to be ended because it was not well
	Delay       time.Duration // until the next start; 0 where there is none, or at once
	GivenUp     string        // see Trouble
	Exhausted   bool
	Swept       []process.Survivor
	Left        []process.Survivor
	PeakMemory  int64           // bytes, the highest seen; 0 is unknown
	Reason      string          // Scrapy's `Spider closed (REASON)`, where it was written
	LastLines   []string        // where nobody asked for the end
	Evidence    []string        // what it did and had printed when it was found not to be well, before it was ended for that
	Kept        []borrowed.Kept // what was taken for it and could not be given back
}
