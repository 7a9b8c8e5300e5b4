package main

import (
	"cmp"
	"slices"
	"time"

	"crawlkeeper/status"
)

// sourceStatus is the record of a source with its code, and how much it needs attention.
type sourceStatus struct {
	status.Record
	code string
	need need
}

// need says how much a source needs attention: the lower, the more.
type need int

const (
	needCooling need = iota
	needBackoff
	needStalled
	needUnhealthy
	needHelp // it has a problem that somebody must solve
	needStopping
	needStarting
	needPending
	needTaking // its tick waits, or is overdue
	needPaused
	needDisabled
	needStopped
	needNothing
)

// overdueAfter is how late a tick may be before it is called overdue: the hash itself is up to two seconds old.
const overdueAfter = 5 * time.Second

// attention lists the sources, those that need attention first: of those that need as much, those with a problem.
func attention(records map[string]status.Record, now time.Time) []sourceStatus {
	sources := make([]sourceStatus, 0, len(records))
	for code, r := range records {
		if r.Phase == "" { // an old manager wrote it
			r.Phase = r.State()
		}
		sources = append(sources, sourceStatus{Record: r, code: code, need: needOf(r, now)})
	}
	slices.SortFunc(sources, func(a, b sourceStatus) int {
		return cmp.Or(cmp.Compare(a.need, b.need), cmp.Compare(calm(a), calm(b)), cmp.Compare(a.code, b.code))
	})
	return sources
}

// calm is 0 for a source with a problem, else 1.
func calm(s sourceStatus) int {
	if s.Problem != "" {
		return 0
	}
	return 1
}

// needOf is decided by the phase where that is not at rest, else by what the source waits for.
func needOf(r status.Record, now time.Time) need {
	switch r.Phase {
	case "cooling":
		return needCooling
	case "backoff":
		return needBackoff
	case "stalled":
		return needStalled
	case "unhealthy":
		return needUnhealthy
	}
	if r.Problem != "" {
		return needHelp
	}
	switch r.Phase {
	case "stopping":
		return needStopping
	case "starting", status.StateRestarting:
		return needStarting
	case "pending":
		return needPending
	case "stopped":
		return needStopped
	}
	switch {
	case r.Queue > 0 || overdue(r, now):
		return needTaking
	case r.Paused:
		return needPaused
	case !r.Enabled && r.Manager != "":
		return needDisabled
	}
	return needNothing
}

// overdue tells whether a tick should have gone out some time ago.
func overdue(r status.Record, now time.Time) bool {
	return r.Pid != 0 && !r.Paused && r.Enabled && !r.NextRunAt.IsZero() && now.Sub(r.NextRunAt) > overdueAfter
}
