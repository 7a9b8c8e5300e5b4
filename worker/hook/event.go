package hook

import "time"

// Event is what a hook gets to know, as one JSON object. Fields that have no meaning at a point are left out.
type Event struct {
	Hook      string    `json:"hook"` // the point, or "alert"
	ID        string    `json:"id"`   // of this event; the same in every attempt, and where it is repeated
	At        time.Time `json:"at"`   // when it happened
	Source    string    `json:"source,omitempty"`
	Adapter   string    `json:"adapter,omitempty"` // as the source's row names it
	Manager   string    `json:"manager"`
	Host      string    `json:"host"`
	Process   *Process  `json:"process,omitempty"`
	Phase     string    `json:"phase,omitempty"` // at healthy and unhealthy: of the worker
	Outcome   string    `json:"outcome,omitempty"`
	Cause     string    `json:"cause,omitempty"`
	Why       string    `json:"why,omitempty"` // the cause in words
	By        string    `json:"by,omitempty"`  // who asked for the start, then for the end
	Exit      *Exit     `json:"exit,omitempty"`
	Delay     float64   `json:"next_start_seconds,omitempty"`
	LastLines []string  `json:"last_lines,omitempty"`
	Evidence  []string  `json:"evidence,omitempty"`
	Repeated  bool      `json:"repeated"` // it is not known whether it ran before
	Alert     *Alert    `json:"alert,omitempty"`
}

// Process is the crawler that an event is about.
type Process struct {
	ID        string     `json:"id"`
	Pid       int        `json:"pid,omitempty"`
	Command   []string   `json:"command,omitempty"` // secrets masked
	QueuedAt  time.Time  `json:"queued_at"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Peak      int64      `json:"peak_memory_bytes,omitempty"`
}

// Exit is how it ended: Code or Signal.
type Exit struct {
	Code   *int    `json:"code,omitempty"`
	Signal string  `json:"signal,omitempty"`
	Ran    float64 `json:"ran_seconds"`
}

// Alert is a condition of which somebody is told.
type Alert struct {
	When  string    `json:"when"`
	State string    `json:"state"` // begins, lasts, over
	Since time.Time `json:"since"`
	Count int       `json:"count"` // how often it happened since then
	Text  string    `json:"text"`
}

// The values of Alert.State.
const (
	Begins = "begins"
	Lasts  = "lasts"
	Over   = "over"
)
