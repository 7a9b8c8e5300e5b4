package health

import "time"

// Kind of a check.
type Kind string

// The kinds.
const (
	HTTP      Kind = "http"       // an answer with the right status and body
	TCP       Kind = "tcp"        // a connection can be made
	Command   Kind = "command"    // a program ends with 0 and prints what it should
	Heartbeat Kind = "heartbeat"  // the crawler's heartbeat is there and moves
	TickTaken Kind = "tick_taken" // no tick waits for long
	Output    Kind = "output"     // lines come while a run is open
	Run       Kind = "run"        // no run is open for long
)

// Gates tells whether a crawler is starting until a check of this kind was well once.
func (k Kind) Gates() bool { return k == HTTP || k == TCP || k == Command || k == Heartbeat }

// looks tells whether a check of this kind looks by itself; the others are told facts.
func (k Kind) looks() bool { return k == HTTP || k == TCP || k == Command }

// Check is one question about a crawler. It is never changed.
type Check struct {
	Kind      Kind
	Every     time.Duration // from look to look
	Timeout   time.Duration // of one look
	After     time.Duration // from the start of the process on, failures do not count
	For       time.Duration // how long what is looked for may last; only for facts
	Unhealthy int           // failures in a row until it is unwell
	Healthy   int           // successes in a row until it is well
	Restart   bool          // one that is unwell has to end

	URL     string   // http
	Status  int      // http: the only right one; 0 is any from 200 to 399
	Want    string   // http, command: text that must be in the answer
	Address string   // tcp: host:port
	Argv    []string // command
}

// State of a crawler.
type State int

// The states.
const (
	Well      State = iota
	Unhealthy       // it does not answer
	Stalled         // it does not move
)

// Verdict is how a crawler is.
type Verdict struct {
	State State
	Why   string // where it is not well
	End   bool   // it has to end for that
}
