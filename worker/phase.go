package worker

import "slices"

// Phase is where a worker stands. The table is in the package's documentation.
type Phase string

// The phases.
const (
	Stopped   Phase = "stopped"
	Pending   Phase = "pending"
	Starting  Phase = "starting"
	Running   Phase = "running"
	Unhealthy Phase = "unhealthy"
	Stalled   Phase = "stalled"
	Stopping  Phase = "stopping"
	Backoff   Phase = "backoff"
	Cooling   Phase = "cooling"
)

// Phases lists all of them, those that need attention first.
var Phases = []Phase{Cooling, Backoff, Stalled, Unhealthy, Stopping, Starting, Pending, Stopped, Running}

var moves = map[Phase][]Phase{
	Stopped:   {Pending},
	Pending:   {Starting, Stopped},
	Starting:  {Running, Stopping, Backoff, Cooling},
	Running:   {Unhealthy, Stalled, Stopping},
	Unhealthy: {Running, Stopping},
	Stalled:   {Running, Stopping},
	Stopping:  {Starting, Backoff, Cooling, Stopped},
	Backoff:   {Starting, Stopped},
	Cooling:   {Starting, Stopped},
}

// CanMove tells whether the table has this move.
func CanMove(from, to Phase) bool { return slices.Contains(moves[from], to) }

// Up tells whether a crawler that can take ticks runs in this phase.
func (p Phase) Up() bool { return p == Running || p == Unhealthy || p == Stalled }

// Cause is why a process ended. It is decided by who asked for the end, never guessed from an exit code.
type Cause string

// The causes.
const (
	Exited      Cause = "exited"       // by itself, with status 0
	Crashed     Cause = "crashed"      // by itself, with another status
	Signalled   Cause = "signalled"    // a signal that was not ours
	OutOfMemory Cause = "oom"          // the kernel killed it for want of memory; said only where the counter of a cgroup moved
	StartFailed Cause = "start_failed" // it never ran
	Sick        Cause = "unhealthy"    // a health check failed, and it was ended for that
	Stuck       Cause = "stalled"      // it was alive but did not move, and was ended for that
	Limit       Cause = "limit"        // it was ended as it used more than its adapter allows
	StoppedBy   Cause = "stopped"      // somebody wanted no crawler
	Restarted   Cause = "restarted"    // somebody wanted a new one
	Shutdown    Cause = "shutdown"     // the manager ended
)

// Causes lists all of them.
var Causes = []Cause{Exited, Crashed, Signalled, OutOfMemory, StartFailed, Sick, Stuck, Limit, StoppedBy, Restarted, Shutdown}

// Unwanted tells whether nobody wanted an end of this cause: it came by itself, or the crawler had to be ended because it was not well.
func (c Cause) Unwanted() bool {
	switch c {
	case Exited, Crashed, Signalled, OutOfMemory, StartFailed, Sick, Stuck, Limit:
		return true
	}
	return false
}
