package main

import (
	"slices"
	"strings"

	"crawlkeeper/manager"
	"crawlkeeper/manager/schedule"
	"crawlkeeper/sql"
)

// sourceChange is what happens to one source.
type sourceChange struct {
	Code   string      `json:"code"`
	Change string      `json:"change"` // one of the words below
	Keys   []keyChange `json:"keys,omitempty"`
	edit   sql.SourceEdit
}

const (
	changeCreate = "create"
	changeUpdate = "update"
	changeDelete = "delete"
)

// keyChange is a value that changes.
type keyChange struct {
	Key  string `json:"key"`
	From string `json:"from,omitempty"` // nothing where the source is new
	To   string `json:"to"`
}

// compareSources says what makes of the sources that there are those that are wanted: values that are the same already are not
// written again. With prune, sources that are not wanted are deleted.
func compareSources(wanted []sql.SourceEdit, there []sql.Source, prune bool) []sourceChange {
	byCode := make(map[string]sql.Source, len(there))
	for _, s := range there {
		byCode[s.Code] = s
	}
	var changes []sourceChange
	for _, edit := range wanted {
		now, exists := byCode[edit.Code]
		delete(byCode, edit.Code)
		if change := compareSource(edit, now, exists); change.Change != "" {
			changes = append(changes, change)
		}
	}
	if !prune {
		return changes
	}
	for _, s := range there {
		if _, left := byCode[s.Code]; left {
			changes = append(changes, sourceChange{Code: s.Code, Change: changeDelete})
		}
	}
	return changes
}

// compareSource leaves only what changes in an edit. Nothing does where the change has no word.
func compareSource(edit sql.SourceEdit, now sql.Source, exists bool) sourceChange {
	change := sourceChange{Code: edit.Code}
	current := editOf(now)
	for _, key := range sourceKeys {
		column := key.field(&edit)
		if !column.given() {
			continue
		}
		to, isValue := column.canon()
		from, wasValue := key.field(&current).canon()
		switch {
		case !exists:
			change.Keys = append(change.Keys, keyChange{Key: key.name, To: to})
		case to == from && isValue == wasValue:
			column.drop()
		default:
			change.Keys = append(change.Keys, keyChange{Key: key.name, From: from, To: to})
		}
	}
	switch {
	case !exists:
		change.Change = changeCreate
	case change.Keys != nil:
		change.Change = changeUpdate
	}
	change.edit = edit
	return change
}

// split are the changes as the store takes them.
func split(changes []sourceChange) (edits []sql.SourceEdit, unwanted []string) {
	for _, c := range changes {
		if c.Change == changeDelete {
			unwanted = append(unwanted, c.Code)
		} else {
			edits = append(edits, c.edit)
		}
	}
	return edits, unwanted
}

// warnOfSources says which of the sources that change will have no crawler or no ticks.
func (a *app) warnOfSources(changes []sourceChange, there []sql.Source) {
	for _, c := range changes {
		if c.Change == changeDelete {
			continue
		}
		source := newSource(c.Code)
		if i := slices.IndexFunc(there, func(s sql.Source) bool { return s.Code == c.Code }); i >= 0 {
			source = there[i]
		}
		noCrawl, noTicks := manager.CheckSource(a.config, edited(source, c.edit))
		if noCrawl != "" {
			a.complain("warning: " + c.Code + " will have no crawler: " + noCrawl)
		}
		if noTicks != "" {
			a.complain("warning: " + c.Code + " will get no ticks: " + noTicks)
		}
	}
}

// newSource is a source of which nothing is given.
func newSource(code string) sql.Source {
	return sql.Source{Code: code, Enabled: true, IntervalSeconds: new(300)}
}

// edited is a source after an edit, as far as its crawler and its schedule are concerned.
func edited(s sql.Source, e sql.SourceEdit) sql.Source {
	take(&s.Adapter, e.Adapter)
	take(&s.Schedule, e.Schedule)
	take(&s.Timezone, e.Timezone)
	take(&s.Jitter, e.Jitter)
	take(&s.Payload, e.Payload)
	if e.IntervalSeconds.Given() {
		s.IntervalSeconds = nil
		if seconds, ok := e.IntervalSeconds.Get(); ok {
			s.IntervalSeconds = &seconds
		}
	}
	return s
}

// take overrides a value where one is given; null is the zero value.
func take[T any](value *T, o sql.Opt[T]) {
	if o.Given() {
		*value, _ = o.Get()
	}
}

// whenText says when a source is due.
func whenText(s sql.Source) string {
	text := none
	switch {
	case s.Schedule != "":
		text = s.Schedule
		if s.Timezone != "" {
			text += " " + s.Timezone
		}
	case s.IntervalSeconds != nil:
		text = "every " + formatSeconds(*s.IntervalSeconds)
	}
	if s.Jitter > 0 && s.Jitter <= schedule.MaxInterval {
		text += " + " + formatDuration(s.Jitter)
	}
	return strings.TrimSpace(text)
}
