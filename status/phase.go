package status

// Phases are all values of [Record.Phase], in the order in which a worker goes through them.
var Phases = []string{"pending", "starting", "running", "unhealthy", "stalled", "stopping", "backoff", "cooling", "stopped"}

// The values of the member `state`, all that the old manager knew.
const (
	StateRunning    = "running"
	StateRestarting = "restarting"
	StateStopped    = "stopped"
)
