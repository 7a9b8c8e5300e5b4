package manager

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// Triggers that a tick can have. The manager never pushes a backfill: such runs belong to other processes.
const (
	triggerSchedule = "schedule"
	triggerStartup  = "startup"
	triggerRestart  = "restart"
	triggerManual   = "manual"
)

// tickSpace is the name space of tick ids. It must never change: the same source and due time have the same id for ever.
var tickSpace = uuid.MustParse("6f1d7a0e-5c8b-4b1e-9f58-3a1f0a7b52c4")

// tickID is a function of source and due time.
func tickID(code string, due time.Time) string {
	name := append(append(make([]byte, 0, len(code)+20), code...), 0)
	name = strconv.AppendInt(name, due.UnixMicro(), 10)
	return uuid.NewSHA1(tickSpace, name).String()
}

// tick is what asks a crawler for one run.
type tick struct {
	code     string
	trigger  string
	due      time.Time
	backfill *int
	history  sql.History
	payload  json.RawMessage
	url      string // of the adapter, where the payload has none
}

// encode writes the tick in one of the shapes of the contract. The old fields come first and read, byte for byte, as
// Python's json.dumps writes them.
func (t tick) encode(shape string) []byte {
	b := make([]byte, 0, 256+len(t.payload))
	switch shape {
	case configs.TickBare:
		if t.trigger == triggerManual { // the old crawlers know no such word
			t.trigger = triggerSchedule
		}
		b = t.appendOld(append(b, '{'))
	case configs.TickScrapyRedis:
		fields := payloadFields(t.payload)
		b = appendQuoted(append(b, `{"url": `...), urlOf(fields, t.url))
		b = t.appendFull(append(b, `, "meta": {`...), fields)
		b = append(b, '}')
	default:
		b = t.appendFull(append(b, '{'), payloadFields(t.payload))
	}
	return append(b, '}')
}

func (t tick) appendOld(b []byte) []byte {
	b = appendQuoted(append(b, `"trigger": `...), t.trigger)
	b = append(b, `, "backfill_hours": `...)
	if t.backfill == nil {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(*t.backfill), 10)
	}
	if !t.history.Open() {
		return b
	}
	b = appendQuoted(append(b, `, "history": {"target": `...), t.history.Target)
	b = append(b, `, "position": `...)
	if t.history.Position == "" {
		b = append(b, "null"...)
	} else {
		b = appendQuoted(b, t.history.Position)
	}
	return append(b, '}')
}

// ownFields win over those of a payload.
var ownFields = []string{"trigger", "backfill_hours", "history", "tick_id", "due_at"}

// appendFull takes the fields of the payload, and may add to them.
func (t tick) appendFull(b []byte, fields map[string]json.RawMessage) []byte {
	b = append(append(t.appendOld(b), `, "tick_id": "`...), tickID(t.code, t.due)...)
	b = status.AppendIsoformat(append(b, `", "due_at": "`...), t.due)
	b = append(b, '"')
	if _, ok := fields["url"]; !ok && t.url != "" {
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields["url"] = appendQuoted(nil, t.url)
	}
	if len(fields) == 0 {
		return b
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(ownFields, name) {
			b = appendQuoted(append(b, ", "...), name)
			b = append(append(b, ": "...), fields[name]...)
		}
	}
	return b
}

// payloadFields is nil where the payload is no object.
func payloadFields(payload json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if len(payload) > 0 && json.Unmarshal(payload, &fields) != nil {
		return nil
	}
	return fields
}

// tickURL is the payload's url, else the adapter's; "" where there is neither.
func tickURL(payload json.RawMessage, adapter string) string {
	return urlOf(payloadFields(payload), adapter)
}

func urlOf(fields map[string]json.RawMessage, adapter string) string {
	var url string
	if field, ok := fields["url"]; ok && json.Unmarshal(field, &url) == nil && url != "" {
		return url
	}
	return adapter
}

// appendQuoted appends a string as JSON.
func appendQuoted(b []byte, s string) []byte {
	if plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return append(b, bytes.TrimSpace(quoted.Bytes())...)
}

// plain tells whether a string stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
