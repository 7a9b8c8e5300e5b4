package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

const (
	maxTickBytes = 1 << 20
	maxWordBytes = 256
	// manualTrigger stands for a tick that names no trigger: it was pushed by hand. A
	// run without any trigger would never be marked as interrupted.
	manualTrigger = "manual"
	maxHours      = 1_000_000
)

// tick is what asks for one run.
type tick struct {
	Trigger string
	ID      string // empty in the shape bare
	URL     string // empty: the crawler's own address
	// Backfill is how far back items are wanted; 0 means without bound.
	Backfill time.Duration
	History  *history // nil: no history is wanted
}

// decodeTick reads a tick of any shape: plain and bare have their fields at the
// top, scrapy-redis has the address there and the rest in meta. Where both have a
// field the top wins. Fields it does not know are ignored. The tick is usable for
// opening a run (it has a trigger) even when there is an error.
func decodeTick(data string) (tick, error) {
	t := tick{Trigger: manualTrigger}
	fields, err := tickFields(data)
	if err != nil {
		return t, fmt.Errorf("read tick: %w", err)
	}
	err = errors.Join(
		word(fields, "trigger", &t.Trigger),
		word(fields, "tick_id", &t.ID),
		text(fields, "url", &t.URL),
		hours(fields, "backfill_hours", &t.Backfill),
		historyOf(fields, &t),
	)
	if err != nil {
		return t, fmt.Errorf("read tick: %w", err)
	}
	return t, nil
}

func tickFields(data string) (map[string]json.RawMessage, error) {
	if len(data) > maxTickBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(data), maxTickBytes)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data), &top); err != nil || top == nil {
		return nil, errors.New("it is no JSON object")
	}
	var meta map[string]json.RawMessage
	if json.Unmarshal(top["meta"], &meta) != nil || meta == nil {
		return top, nil // a payload may have a meta of its own that is no object
	}
	maps.Copy(meta, top)
	return meta, nil
}

// decode reads one field; absent and null leave the target as it is.
func decode[T any](fields map[string]json.RawMessage, name, want string, target *T) (bool, error) {
	raw, ok := fields[name]
	if !ok || string(raw) == "null" {
		return false, nil
	}
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		return false, fmt.Errorf("%s is no %s", name, want)
	}
	*target = value
	return true, nil
}

// text reads a string that Postgres can hold.
func text(fields map[string]json.RawMessage, name string, target *string) error {
	var value string
	if ok, err := decode(fields, name, "text", &value); !ok {
		return err
	}
	if strings.ContainsRune(value, 0) {
		return fmt.Errorf("%s has a zero byte", name)
	}
	*target = value
	return nil
}

// word reads a short string; an empty one leaves the target as it is.
func word(fields map[string]json.RawMessage, name string, target *string) error {
	var value string
	if err := text(fields, name, &value); err != nil || value == "" {
		return err
	}
	if len(value) > maxWordBytes {
		return fmt.Errorf("%s has more than %d bytes", name, maxWordBytes)
	}
	*target = value
	return nil
}

func hours(fields map[string]json.RawMessage, name string, target *time.Duration) error {
	var value float64
	if ok, err := decode(fields, name, "number", &value); !ok {
		return err
	}
	if value < 0 || value > maxHours {
		return fmt.Errorf("%s is not between 0 and %d", name, maxHours)
	}
	*target = time.Duration(value * float64(time.Hour))
	return nil
}

func historyOf(fields map[string]json.RawMessage, t *tick) error {
	var inner map[string]json.RawMessage
	if ok, err := decode(fields, "history", "object", &inner); !ok {
		return err
	}
	var h history
	var targetIsDate bool
	err := errors.Join(
		moment(inner, "target", &h.Target, &targetIsDate),
		moment(inner, "position", &h.Position, &h.PositionIsDate),
	)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if h.Target.IsZero() {
		return errors.New("history has no target")
	}
	t.History = &h
	return nil
}

// momentLayouts are the forms of Python's isoformat, with the usual T and with a
// space, as databases print it. Without an offset it is UTC.
var momentLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999",
}

func moment(fields map[string]json.RawMessage, name string, target *time.Time, isDate *bool) error {
	var value string
	if err := text(fields, name, &value); err != nil || value == "" {
		return err
	}
	if day, err := time.Parse(time.DateOnly, value); err == nil {
		*target, *isDate = day, true
		return nil
	}
	for _, layout := range momentLayouts {
		if at, err := time.Parse(layout, value); err == nil {
			*target = at.UTC()
			return nil
		}
	}
	return fmt.Errorf("%s is no time", name)
}
