package control

// Reply answers a command that carried an id, when it has taken effect.
type Reply struct {
	ID      string            `json:"id"`
	OK      bool              `json:"ok"`
	Manager string            `json:"manager"`           // [Replier] fills it in
	Error   string            `json:"error,omitempty"`   // of the command as a whole
	Warning string            `json:"warning,omitempty"` // it took effect, but something still follows
	Results map[string]Result `json:"results,omitempty"` // by code
	Janitor *Cleaning         `json:"janitor,omitempty"` // after the command janitor
}

// Result is what became of the command for one source.
type Result struct {
	OK    bool   `json:"ok"`
	Tick  string `json:"tick,omitempty"` // after the command tick: [TickPushed] or [TickWaiting]
	Error string `json:"error,omitempty"`
}

// The values of [Result.Tick].
const (
	TickPushed  = "pushed"  // the tick went out
	TickWaiting = "waiting" // one waits already, nothing was pushed
)

// Superseded is the error of a wish that a later, different one for the same source replaced.
const Superseded = "superseded"
