package status

import (
	"encoding/json"
	"fmt"
	"time"
)

// Record is what the status hash says about one source. Times that are zero are null in JSON, as are empty texts, except where a
// comment says otherwise. Two records that are == say the same.
type Record struct {
	Pid        int       // of the crawler, 0 while there is none
	Restarting bool      // a restart that was asked for is under way
	StartedAt  time.Time // of the last process, kept after its end
	NextRunAt  time.Time // when the source is due next; never null

	Phase        string // one of [Phases]
	Paused       bool
	PauseReason  string
	PausedUntil  time.Time
	PausedBy     string // left out where nobody gave a name
	Enabled      bool
	Trigger      string // of the next tick
	Restarts     int    // starts after the first one
	BackoffUntil time.Time
	LastExit     *Exit // never changed once it is here; null before the first end
	Queue        int   // 1 while our last tick still waited when last looked at
	RSSBytes     int64 // of the whole tree; 0 where it is not known, then it and CPUPercent are null
	CPUPercent   int   // of one core
	Manager      string
	UpdatedAt    time.Time // of the last change of phase

	Problem string // why this source has no crawler that stays up, or gets no ticks, for people; left out where there is none
}

// Exit is how a crawler ended.
type Exit struct {
	At         time.Time
	Cause      string
	Code       *int   // null where a signal ended it, or where it never ran
	Signal     string // SIGKILL and so on
	RanSeconds float64
}

// State is what the old manager called it.
func (r *Record) State() string {
	switch {
	case r.Restarting:
		return StateRestarting
	case r.Pid != 0:
		return StateRunning
	default:
		return StateStopped
	}
}

// MarshalJSON writes the status field.
func (r Record) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// wireRecord is a status field as it is read.
type wireRecord struct {
	State        string    `json:"state"`
	Pid          int       `json:"pid"`
	StartedAt    wireTime  `json:"started_at"`
	NextRunAt    wireTime  `json:"next_run_at"`
	Phase        string    `json:"phase"`
	Paused       bool      `json:"paused"`
	PauseReason  string    `json:"pause_reason"`
	PausedUntil  wireTime  `json:"paused_until"`
	PausedBy     string    `json:"paused_by"`
	Enabled      bool      `json:"enabled"`
	Trigger      string    `json:"trigger"`
	Restarts     int       `json:"restarts"`
	BackoffUntil wireTime  `json:"backoff_until"`
	LastExit     *wireExit `json:"last_exit"`
	Queue        int       `json:"queue"`
	RSSBytes     int64     `json:"rss_bytes"`
	CPUPercent   int       `json:"cpu_percent"`
	Manager      string    `json:"manager"`
	UpdatedAt    wireTime  `json:"updated_at"`
	Problem      string    `json:"problem"`
}

type wireExit struct {
	At         wireTime `json:"at"`
	Cause      string   `json:"cause"`
	Code       *int     `json:"code"`
	Signal     string   `json:"signal"`
	RanSeconds float64  `json:"ran_seconds"`
}

// UnmarshalJSON reads a status field, also one of the old manager, which has only the first four members.
func (r *Record) UnmarshalJSON(data []byte) error {
	var w wireRecord
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode status field: %w", err)
	}
	*r = Record{
		Pid: w.Pid, Restarting: w.State == StateRestarting, StartedAt: w.StartedAt.Time, NextRunAt: w.NextRunAt.Time,
		Phase: w.Phase, Paused: w.Paused, PauseReason: w.PauseReason, PausedUntil: w.PausedUntil.Time, PausedBy: w.PausedBy, Enabled: w.Enabled,
		Trigger: w.Trigger, Restarts: w.Restarts, BackoffUntil: w.BackoffUntil.Time, Queue: w.Queue, RSSBytes: w.RSSBytes,
		CPUPercent: w.CPUPercent, Manager: w.Manager, UpdatedAt: w.UpdatedAt.Time, Problem: w.Problem,
	}
	if e := w.LastExit; e != nil {
		r.LastExit = &Exit{At: e.At.Time, Cause: e.Cause, Code: e.Code, Signal: e.Signal, RanSeconds: e.RanSeconds}
	}
	return nil
}

// wireTime is a time in Python's isoformat, zero for null.
type wireTime struct{ time.Time }

// UnmarshalJSON reads null or a string.
func (t *wireTime) UnmarshalJSON(data []byte) error {
	var s *string
	if err := json.Unmarshal(data, &s); err != nil || s == nil {
		return err
	}
	parsed, err := ParseTime(*s)
	t.Time = parsed
	return err
}
