package status

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// AppendJSON appends the status field: an object with Python's separators, its members in the order of the contract. It allocates
// nothing where b has room and the texts are plain.
func (r *Record) AppendJSON(b []byte) []byte {
	b = append(b, `{"state": "`...)
	b = append(b, r.State()...)
	b = append(b, `", "pid": `...)
	b = appendKnown(b, int64(r.Pid), r.Pid != 0)
	b = appendTime(append(b, `, "started_at": `...), r.StartedAt)
	b = append(b, `, "next_run_at": "`...)
	b = append(AppendIsoformat(b, r.NextRunAt), '"')
	b = appendText(append(b, `, "phase": `...), r.Phase)
	b = strconv.AppendBool(append(b, `, "paused": `...), r.Paused)
	b = appendText(append(b, `, "pause_reason": `...), r.PauseReason)
	b = appendTime(append(b, `, "paused_until": `...), r.PausedUntil)
	if r.PausedBy != "" {
		b = appendText(append(b, `, "paused_by": `...), r.PausedBy)
	}
	b = strconv.AppendBool(append(b, `, "enabled": `...), r.Enabled)
	b = appendText(append(b, `, "trigger": `...), r.Trigger)
	b = strconv.AppendInt(append(b, `, "restarts": `...), int64(r.Restarts), 10)
	b = appendTime(append(b, `, "backoff_until": `...), r.BackoffUntil)
	b = appendExit(append(b, `, "last_exit": `...), r.LastExit)
	b = strconv.AppendInt(append(b, `, "queue": `...), int64(r.Queue), 10)
	b = appendKnown(append(b, `, "rss_bytes": `...), r.RSSBytes, r.RSSBytes > 0)
	b = appendKnown(append(b, `, "cpu_percent": `...), int64(r.CPUPercent), r.RSSBytes > 0)
	b = appendText(append(b, `, "manager": `...), r.Manager)
	b = appendTime(append(b, `, "updated_at": `...), r.UpdatedAt)
	if r.Problem != "" {
		b = appendText(append(b, `, "problem": `...), r.Problem)
	}
	return append(b, '}')
}

func appendExit(b []byte, e *Exit) []byte {
	if e == nil {
		return append(b, "null"...)
	}
	b = appendTime(append(b, `{"at": `...), e.At)
	b = appendText(append(b, `, "cause": `...), e.Cause)
	b = append(b, `, "code": `...)
	if e.Code != nil {
		b = strconv.AppendInt(b, int64(*e.Code), 10)
	} else {
		b = append(b, "null"...)
	}
	b = appendText(append(b, `, "signal": `...), e.Signal)
	b = strconv.AppendFloat(append(b, `, "ran_seconds": `...), roundSeconds(e.RanSeconds), 'f', -1, 64)
	return append(b, '}')
}

// roundSeconds leaves milliseconds, and numbers that JSON can hold.
func roundSeconds(s float64) float64 {
	if !(s > 0) || s > math.MaxInt32*1000 {
		return 0
	}
	return math.Round(s*1000) / 1000
}

func appendKnown(b []byte, n int64, known bool) []byte {
	if !known {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, n, 10)
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return append(AppendIsoformat(append(b, '"'), t), '"')
}

// appendText appends a JSON string, null for the empty one.
func appendText(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	if plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	quoted, _ := json.Marshal(s) // a string can always be marshalled
	return append(b, quoted...)
}

// plain says whether a text needs no escapes.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
