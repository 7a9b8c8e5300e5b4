package main

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v4"

	"crawlkeeper/sql"
)

// sourceKey is one key that a source has in a file, beside its code.
type sourceKey struct {
	name   string
	state  bool // written by crawlers and commands: exported where that is asked for
	always bool // exported also where it is null, as a new source would get another value
	field  func(*sql.SourceEdit) field
}

// sourceKeys are all of them, in the order of export.
var sourceKeys = []sourceKey{
	{name: "adapter", field: func(e *sql.SourceEdit) field { return fieldOf(&e.Adapter, textKind) }},
	{name: "enabled", field: func(e *sql.SourceEdit) field { return fieldOf(&e.Enabled, boolKind) }},
	{name: "interval", always: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.IntervalSeconds, intervalKind) }},
	{name: "schedule", field: func(e *sql.SourceEdit) field { return fieldOf(&e.Schedule, cronKind) }},
	{name: "timezone", field: func(e *sql.SourceEdit) field { return fieldOf(&e.Timezone, zoneKind) }},
	{name: "jitter", field: func(e *sql.SourceEdit) field { return fieldOf(&e.Jitter, jitterKind) }},
	{name: "backfill_hours", always: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.BackfillHours, hoursKind) }},
	{name: "payload", field: func(e *sql.SourceEdit) field { return fieldOf(&e.Payload, payloadKind) }},
	{name: "history_target", field: func(e *sql.SourceEdit) field { return fieldOf(&e.HistoryTarget, momentKind) }},

	{name: "history_position", state: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.HistoryPosition, momentKind) }},
	{name: "history_done", state: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.HistoryDone, boolKind) }},
	{name: "consecutive_failures", state: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.ConsecutiveFailures, countKind) }},
	{name: "paused_until", state: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.PausedUntil, timeKind) }},
	{name: "pause_reason", state: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.PauseReason, textKind) }},
	{name: "paused_by", state: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.PausedBy, textKind) }},
	{name: "wanted", state: true, field: func(e *sql.SourceEdit) field { return fieldOf(&e.Wanted, wantedKind) }},
}

// keyNamed is the key of a name.
func keyNamed(name string) (sourceKey, bool) {
	i := slices.IndexFunc(sourceKeys, func(k sourceKey) bool { return k.name == name })
	if i < 0 {
		return sourceKey{}, false
	}
	return sourceKeys[i], true
}

// field is one column of an edit, whatever its type.
type field interface {
	given() bool
	drop()                 // makes it one that is not given
	read(*yaml.Node) error // sets it to what a file says
	readText(string) error // sets it to what a command line says; "" is null
	node() *yaml.Node      // what a file says
	canon() (string, bool) // the same for values that are the same; false for null
}

// fieldOf is a column of a type.
func fieldOf[T any](value *sql.Opt[T], k kind[T]) field { return typedField[T]{value, k} }

type typedField[T any] struct {
	value *sql.Opt[T]
	kind  kind[T]
}

func (c typedField[T]) given() bool { return c.value.Given() }

func (c typedField[T]) drop() { *c.value = sql.Opt[T]{} }

func (c typedField[T]) read(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		*c.value = sql.Null[T]()
		return nil
	}
	text, err := c.kind.take(n)
	if err != nil {
		return err
	}
	return c.set(text)
}

func (c typedField[T]) readText(text string) error {
	if text == "" {
		*c.value = sql.Null[T]()
		return nil
	}
	return c.set(text)
}

func (c typedField[T]) set(text string) error {
	value, err := c.kind.parse(text)
	if err == nil {
		*c.value = value
	}
	return err
}

func (c typedField[T]) node() *yaml.Node {
	value, ok := c.value.Get()
	if !ok {
		return nullNode()
	}
	return c.kind.write(value)
}

func (c typedField[T]) canon() (string, bool) {
	value, ok := c.value.Get()
	if !ok {
		return "null", false
	}
	return c.kind.canon(value), true
}

// editOf is the edit that makes a source what it is.
func editOf(s sql.Source) sql.SourceEdit {
	return sql.SourceEdit{
		Code: s.Code, Adapter: optional(s.Adapter), Enabled: sql.Some(s.Enabled),
		IntervalSeconds: pointed(s.IntervalSeconds), BackfillHours: pointed(s.BackfillHours),
		HistoryTarget: optional(s.History.Target), HistoryPosition: optional(s.History.Position), HistoryDone: sql.Some(s.History.Done),
		ConsecutiveFailures: sql.Some(s.ConsecutiveFailures), PausedUntil: optional(s.PausedUntil),
		Schedule: optional(s.Schedule), Timezone: optional(s.Timezone), Jitter: optional(s.Jitter), Payload: optionalJSON(s.Payload),
		PauseReason: optional(s.PauseReason), PausedBy: optional(s.PausedBy), Wanted: optional(s.Wanted),
	}
}

func optional[T comparable](value T) sql.Opt[T] {
	var zero T
	if value == zero {
		return sql.Null[T]()
	}
	return sql.Some(value)
}

func pointed[T any](value *T) sql.Opt[T] {
	if value == nil {
		return sql.Null[T]()
	}
	return sql.Some(*value)
}

func optionalJSON(value json.RawMessage) sql.Opt[json.RawMessage] {
	if value == nil {
		return sql.Null[json.RawMessage]()
	}
	return sql.Some(value)
}
