package status

// OldManagerRunsWithin is OldManagerRuns with another patience.
var OldManagerRunsWithin = oldManagerRuns

// ChunkSize is how many fields one command sets at most.
const ChunkSize = chunkSize

// MaxFollowers is how many may follow outputs at the same time.
const MaxFollowers = maxFollowers

// MaxConns and MaxHeader are limits of a [Server].
const (
	MaxConns  = maxConns
	MaxHeader = maxHeader
)
