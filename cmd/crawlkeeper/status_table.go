package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"crawlkeeper/internal/plain"
	"crawlkeeper/manager"
	"crawlkeeper/status"
)

// phaseColours say at a glance how a source is.
var phaseColours = map[string]colour{
	"cooling": red, "backoff": red, "stalled": red, "unhealthy": red,
	"stopping": yellow, "starting": cyan, "restarting": cyan, "pending": cyan,
	"running": green, "stopped": dim,
}

// drawSummary is the line above the table: who manages, and how many sources are in which phase.
func drawSummary(s snapshot, v view) string {
	who := paint("no manager", red, v)
	if h := s.holder; h != nil {
		who = paint(plain.Text(h.Name), bold, v) + plain.Text(fmt.Sprintf(" on %s, pid %d", h.Host, h.Pid))
		if h.HTTP != "" {
			who += plain.Text(", http://" + h.HTTP)
		}
	}
	return who + ": " + countPhases(s.records, v) + "\n"
}

// countPhases says "5 sources: 4 running, 1 backoff".
func countPhases(records map[string]status.Record, v view) string {
	counts := map[string]int{}
	paused := 0
	for _, s := range attention(records, time.Time{}) {
		counts[s.Phase]++
		if s.Paused {
			paused++
		}
	}
	phases := append(slices.Clone(status.Phases), status.StateRestarting)
	var parts []string
	for _, phase := range phases {
		if n := counts[phase]; n > 0 {
			parts = append(parts, paint(fmt.Sprintf("%d %s", n, phase), phaseColours[phase], v))
		}
	}
	if paused > 0 {
		parts = append(parts, fmt.Sprintf("%d paused", paused))
	}
	return strings.Join(append([]string{countSources(len(records))}, parts...), ", ")
}

func countSources(n int) string { return countOf(n, "source") }

// countOf counts things whose plural has an s.
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// drawSources is the table.
func drawSources(sources []sourceStatus, now time.Time, v view) string {
	if len(sources) == 0 {
		return ""
	}
	t := newTable("SOURCE", "PHASE", ">PID", ">UP", "NEXT", ">MEMORY", ">RESTARTS", "WHY")
	for _, s := range sources {
		t.add(s.code, cell{s.Phase, phaseColours[s.Phase]}, pid(s.Pid), up(s.Record, now), next(s, now),
			memory(s.RSSBytes), s.Restarts, cell{why(s, now), whyColour(s)})
	}
	return t.render(v)
}

func pid(n int) string {
	if n == 0 {
		return none
	}
	return strconv.Itoa(n)
}

func up(r status.Record, now time.Time) string {
	if r.Pid == 0 || r.StartedAt.IsZero() {
		return none
	}
	return shortDuration(max(0, now.Sub(r.StartedAt)))
}

// next is what happens next to a source: a start where it has no crawler, else a tick.
func next(s sourceStatus, now time.Time) cell {
	switch {
	case s.BackoffUntil.After(now) && s.Pid == 0:
		return cell{text: "start " + relative(now, s.BackoffUntil)}
	case !s.BackoffUntil.IsZero() && s.Pid == 0:
		return cell{text: "start now"}
	case s.Pid == 0 || !s.Enabled && s.Manager != "":
		return cell{text: none}
	case overdue(s.Record, now):
		return cell{relative(now, s.NextRunAt), yellow}
	}
	return cell{text: relative(now, s.NextRunAt)}
}

// memory in the largest unit.
func memory(bytes int64) string {
	const kilo = 1 << 10
	switch {
	case bytes <= 0:
		return none
	case bytes < kilo*kilo:
		return fmt.Sprintf("%d KiB", bytes/kilo)
	case bytes < kilo*kilo*kilo:
		return fmt.Sprintf("%d MiB", bytes/kilo/kilo)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/kilo/kilo/kilo)
}

// why says what one would ask next about a source.
func why(s sourceStatus, now time.Time) string {
	var parts []string
	if s.Problem != "" {
		parts = append(parts, s.Problem)
	}
	if s.Restarting {
		parts = append(parts, "restart asked for")
	}
	if s.Paused {
		parts = append(parts, pauseText(s.Record, now))
	}
	if !s.Enabled && s.Manager != "" {
		parts = append(parts, "disabled")
	}
	switch {
	case s.Phase == "stopped" && s.Enabled && s.Problem == "" && s.Manager != "" && (s.LastExit == nil || s.LastExit.Cause != "shutdown"):
		parts = append(parts, "no crawler is wanted until "+startHint(s.code))
	case s.Phase == "starting" && s.Pid != 0:
		parts = append(parts, "its checks have not been well yet")
	case s.Queue > 0:
		parts = append(parts, "its tick waits")
	case overdue(s.Record, now):
		parts = append(parts, "its tick is overdue")
	}
	if s.LastExit != nil {
		parts = append(parts, exitText(*s.LastExit, now))
	}
	return strings.Join(parts, "; ")
}

// startHint is a command to copy: what is no code might be more than one.
func startHint(code string) string {
	if manager.CheckCode(code) != nil {
		return "`start`"
	}
	return "`crawlkeeper start " + code + "`"
}

func pauseText(r status.Record, now time.Time) string {
	text := "paused"
	if r.PausedBy != "" {
		text += " by " + r.PausedBy
	}
	if until := relative(now, r.PausedUntil); until != "never" && until != none {
		text += ", ends " + until
	}
	if r.PauseReason != "" {
		text += ": " + r.PauseReason
	}
	return text
}

// exitText is "crashed (1) 3 min ago after 12 s".
func exitText(e status.Exit, now time.Time) string {
	text := strings.ReplaceAll(e.Cause, "_", " ")
	switch {
	case e.Signal != "":
		text += " (" + e.Signal + ")"
	case e.Code != nil && *e.Code != 0:
		text += fmt.Sprintf(" (%d)", *e.Code)
	}
	text += " " + relative(now, e.At)
	if e.RanSeconds > 0 {
		text += " after " + shortDuration(time.Duration(e.RanSeconds*float64(time.Second)))
	}
	return text
}

// whyColour marks what has to be looked at, and dims what is only the past.
func whyColour(s sourceStatus) colour {
	switch s.need {
	case needHelp:
		return red
	case needNothing:
		return dim
	}
	return 0
}
