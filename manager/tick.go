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
	return uuid.NewSHA1(tickSpace, []byte(code+"\x00"+strconv.FormatInt(due.UnixMicro(), 10))).String()
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
	var b bytes.Buffer
	switch shape {
	case configs.TickBare:
		if t.trigger == triggerManual { // the old crawlers know no such word
			t.trigger = triggerSchedule
		}
		b.WriteByte('{')
		t.old(&b)
	case configs.TickScrapyRedis:
		b.WriteString(`{"url": `)
		b.Write(quote(tickURL(t.payload, t.url)))
		b.WriteString(`, "meta": {`)
		t.full(&b)
		b.WriteByte('}')
	default:
		b.WriteByte('{')
		t.full(&b)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func (t tick) old(b *bytes.Buffer) {
	b.WriteString(`"trigger": `)
	b.Write(quote(t.trigger))
	b.WriteString(`, "backfill_hours": `)
	if t.backfill == nil {
		b.WriteString("null")
	} else {
		b.WriteString(strconv.Itoa(*t.backfill))
	}
	if !t.history.Open() {
		return
	}
	b.WriteString(`, "history": {"target": `)
	b.Write(quote(t.history.Target))
	b.WriteString(`, "position": `)
	if t.history.Position == "" {
		b.WriteString("null")
	} else {
		b.Write(quote(t.history.Position))
	}
	b.WriteByte('}')
}

// ownFields win over those of a payload.
var ownFields = []string{"trigger", "backfill_hours", "history", "tick_id", "due_at"}

func (t tick) full(b *bytes.Buffer) {
	t.old(b)
	b.WriteString(`, "tick_id": "` + tickID(t.code, t.due) + `", "due_at": "`)
	b.WriteString(status.Isoformat(t.due))
	b.WriteByte('"')
	fields := payloadFields(t.payload)
	if _, ok := fields["url"]; !ok && t.url != "" {
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields["url"] = quote(t.url)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(ownFields, name) {
			b.WriteString(", ")
			b.Write(quote(name))
			b.WriteString(": ")
			b.Write(fields[name])
		}
	}
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
	var fields struct{ URL string }
	if len(payload) > 0 && json.Unmarshal(payload, &fields) == nil && fields.URL != "" {
		return fields.URL
	}
	return adapter
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return bytes.TrimSpace(b.Bytes())
}
