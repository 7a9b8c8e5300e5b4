package control

import (
	"encoding/json"
	"strings"
	"time"
)

// The actions that a command can ask for.
const (
	ActionRestart = "restart"
	ActionStop    = "stop"
	ActionStart   = "start"
	ActionPause   = "pause"
	ActionResume  = "resume"
	ActionTick    = "tick"
	ActionReload  = "reload"
	ActionJanitor = "janitor"
)

// All is the value of `source` that means every source.
const All = "all"

// adapterPrefix before a name in `source` means every source of that adapter.
const adapterPrefix = "adapter:"

// Command is one message of the control channel. Of Sources, Adapter and All exactly one is set; for [ActionReload] there may be none, for
// [ActionJanitor] there is none.
type Command struct {
	Action  string
	Sources []string // codes, each once, in the order they were given
	Adapter string   // every source of this adapter
	All     bool     // every source

	ID string // asks for a reply when not empty
	By string // who asks, for the log

	Until  time.Time // pause: its end; zero means until resume
	Reason string    // pause: why

	Stagger time.Duration // restart: the time between two starts; 0 means at once
	Rolling bool          // restart: the next ones only when the last ones are well
	MaxDown int           // restart with Rolling: how many may be down together; 0 means the manager's own choice

	Remove bool // janitor: remove what is found, where that is sure
}

// Source is the command's `source` as people write it: a code, several with commas, `adapter:NAME` or `all`.
func (c Command) Source() string {
	switch {
	case c.All:
		return All
	case c.Adapter != "":
		return adapterPrefix + c.Adapter
	}
	return strings.Join(c.Sources, ",")
}

// MarshalJSON writes the command as [Parse] reads it.
func (c Command) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Action  string  `json:"action"`
		Source  any     `json:"source,omitempty"`
		ID      string  `json:"id,omitempty"`
		By      string  `json:"by,omitempty"`
		Until   string  `json:"until,omitempty"`
		Reason  string  `json:"reason,omitempty"`
		Stagger float64 `json:"stagger,omitempty"`
		Rolling bool    `json:"rolling,omitempty"`
		MaxDown int     `json:"max_down,omitempty"`
		Remove  bool    `json:"remove,omitempty"`
	}{
		Action: c.Action, Source: c.wireSource(), ID: c.ID, By: c.By, Until: formatUntil(c.Until), Reason: c.Reason,
		Stagger: c.Stagger.Seconds(), Rolling: c.Rolling, MaxDown: c.MaxDown, Remove: c.Remove,
	})
}

// wireSource is a string where one is enough, a list for several codes, and nil where there is none.
func (c Command) wireSource() any {
	switch {
	case len(c.Sources) > 1 && !c.All && c.Adapter == "":
		return c.Sources
	case c.Source() == "":
		return nil
	default:
		return c.Source()
	}
}

func formatUntil(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999-07:00")
}
