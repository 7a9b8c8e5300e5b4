package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"crawlkeeper/internal/plain"
	"crawlkeeper/sql"
)

// ProcessesCmd lists the processes that were started, with what is known of their ends.
type ProcessesCmd struct {
	jsonFlag
	Code    string `arg:"" optional:"" help:"Only of this source; or the id of a process: all that is known of it and of what was run for it."`
	Limit   int    `help:"At most so many, the youngest first; 0 is all." default:"20"`
	Open    bool   `help:"Only those that have not ended."`
	Tree    bool   `help:"What of them is alive now, as trees, on this machine."`
	Verbose bool   `short:"v" help:"Also the last lines that each printed, and how it was started."`
}

// Run writes a table, or {"processes":[…]}.
func (c *ProcessesCmd) Run(ctx context.Context, a *app) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	filter := sql.ProcessFilter{Source: c.Code, Open: c.Open || c.Tree, Limit: c.Limit}
	if id, err := uuid.Parse(c.Code); err == nil && len(c.Code) == 36 {
		filter.Source, filter.ID, c.Verbose = "", id.String(), true
	}
	list, err := store.Processes(ctx, filter)
	if err != nil {
		return explain(ctx, store, err)
	}
	now := time.Now()
	switch {
	case c.Tree && c.JSON:
		return a.printJSON(map[string]any{"processes": treesToJSON(look(list))})
	case c.Tree:
		return a.printTrees(look(list))
	case c.JSON:
		objects := make([]processJSON, len(list))
		for i, p := range list {
			objects[i] = processToJSON(p)
		}
		return a.printJSON(map[string]any{"processes": objects})
	case c.Verbose:
		for _, p := range list {
			if err := a.printProcess(p, now); err != nil {
				return err
			}
		}
		return nil
	}
	return a.printTable(processTable(list, now))
}

func processTable(list []sql.Process, now time.Time) *table {
	t := newTable("STARTED", "SOURCE", ">PID", "STATUS", "CAUSE", "EXIT", ">RAN", ">MEMORY", ">CPU", ">SWEPT", "BY", "LAST LINE")
	for _, p := range list {
		t.add(relative(now, startOf(p)), p.Source, pid(p.Pid), cell{p.Status, processColours[p.Status]}, causeText(p), exitOf(p),
			ranText(p, now), memory(p.PeakMemory), cpuText(p.CPUTime), counted(p.Swept, yellow), cmp.Or(p.By, none), lastLine(p))
	}
	return t
}

var processColours = map[string]colour{sql.ProcessRunning: green, sql.ProcessQueued: cyan, sql.ProcessExited: dim}

// startOf is when it was started, or was to be.
func startOf(p sql.Process) time.Time {
	if p.StartedAt.IsZero() {
		return p.QueuedAt
	}
	return p.StartedAt
}

func causeText(p sql.Process) string {
	cause := cmp.Or(strings.ReplaceAll(p.Cause, "_", " "), none)
	if p.Kind != "" && p.Kind != "crawler" {
		cause = p.Kind + ": " + cause
	}
	return cause
}

// exitOf is its exit status, or the signal that ended it.
func exitOf(p sql.Process) string {
	switch {
	case p.Signal != "":
		return p.Signal
	case p.ExitCode != nil:
		return strconv.Itoa(*p.ExitCode)
	}
	return none
}

// ran is how long it ran, false where it never did or still does.
func ran(p sql.Process) (time.Duration, bool) {
	if p.StartedAt.IsZero() || p.EndedAt.IsZero() {
		return 0, false
	}
	return max(0, p.EndedAt.Sub(p.StartedAt)), true
}

func ranText(p sql.Process, now time.Time) string {
	d, over := ran(p)
	switch {
	case over:
		return preciseDuration(d)
	case p.Status == sql.ProcessRunning && !p.StartedAt.IsZero():
		return preciseDuration(max(0, now.Sub(p.StartedAt))) + "…"
	}
	return none
}

func cpuText(d time.Duration) string {
	if d <= 0 {
		return none
	}
	return preciseDuration(d)
}

func lastLine(p sql.Process) string {
	if len(p.LastLines) == 0 {
		return ""
	}
	return p.LastLines[len(p.LastLines)-1]
}

// printProcess writes all that is known of one process.
func (a *app) printProcess(p sql.Process, now time.Time) error {
	v := a.view()
	var b strings.Builder
	head := fmt.Sprintf("%s  %s", p.Source, p.ID)
	b.WriteString(paint(plain.Text(head), bold, v) + "\n")
	for _, line := range [][2]string{
		{"status", fmt.Sprintf("%s, pid %s on %s, started %s by manager %s", p.Status, pid(p.Pid), p.Host, relative(now, startOf(p)), p.Manager)},
		{"end", endText(p, now)},
		{"used", fmt.Sprintf("memory %s, CPU %s, swept %d", memory(p.PeakMemory), cpuText(p.CPUTime), p.Swept)},
		{"command", strings.Join(p.Command, " ")},
		{"binary", fmt.Sprintf("%s in %s", cmp.Or(p.Binary, none), cmp.Or(p.Dir, "."))},
	} {
		fmt.Fprintf(&b, "  %-8s %s\n", line[0], plain.Text(line[1]))
	}
	for _, line := range p.LastLines {
		b.WriteString(paint("  | "+plain.Text(line), dim, v) + "\n")
	}
	if len(p.Evidence) > 0 {
		b.WriteString("  found not to be well; until then it had printed and did:\n")
	}
	for _, line := range p.Evidence {
		b.WriteString(paint("  : "+plain.Text(line), dim, v) + "\n")
	}
	return a.printf("%s\n", b.String())
}

// endText is how it ended. Who is named asked for the end where somebody did, else for the start.
func endText(p sql.Process, now time.Time) string {
	how := fmt.Sprintf("%s, exit %s, ran %s", causeText(p), exitOf(p), ranText(p, now))
	if p.EndedAt.IsZero() {
		how = "not yet, ran " + ranText(p, now)
	}
	if slices.Contains([]string{"stopped", "restarted", "shutdown"}, p.Cause) {
		return how + ", asked for by " + cmp.Or(p.By, "nobody")
	}
	return how + ", started by " + cmp.Or(p.By, "nobody")
}

// processJSON is a process as --json shows it.
type processJSON struct {
	ID          string   `json:"id"`
	Source      string   `json:"source"`
	Kind        string   `json:"kind"`
	Parent      *string  `json:"parent"`
	Manager     string   `json:"manager"`
	Host        string   `json:"host"`
	BootID      string   `json:"boot_id"`
	Pid         *int     `json:"pid"`
	StartTime   *uint64  `json:"start_time"`
	Fingerprint *uint64  `json:"fingerprint"`
	Command     []string `json:"command"`
	Binary      *string  `json:"binary"`
	Dir         *string  `json:"dir"`
	Status      string   `json:"status"`
	QueuedAt    *string  `json:"queued_at"`
	StartedAt   *string  `json:"started_at"`
	EndedAt     *string  `json:"ended_at"`
	RanSeconds  *float64 `json:"ran_seconds"`
	ExitCode    *int     `json:"exit_code"`
	Signal      *string  `json:"signal"`
	Cause       *string  `json:"cause"`
	By          *string  `json:"by"`
	LastLines   []string `json:"last_lines"`
	PeakMemory  *int64   `json:"peak_memory"`
	CPUSeconds  *float64 `json:"cpu_seconds"`
	Swept       int      `json:"swept"`
	Evidence    []string `json:"evidence"`
}

func processToJSON(p sql.Process) processJSON {
	j := processJSON{
		ID: p.ID, Source: p.Source, Kind: p.Kind, Parent: orNull(p.Parent), Manager: p.Manager, Host: p.Host, BootID: p.BootID, Pid: orNull(p.Pid),
		StartTime: orNull(p.StartTime), Fingerprint: orNull(p.Fingerprint), Command: append([]string{}, p.Command...), Binary: orNull(p.Binary),
		Dir: orNull(p.Dir), Status: p.Status, QueuedAt: timeOrNull(p.QueuedAt), StartedAt: timeOrNull(p.StartedAt), EndedAt: timeOrNull(p.EndedAt),
		ExitCode: p.ExitCode, Signal: orNull(p.Signal), Cause: orNull(p.Cause), By: orNull(p.By), LastLines: append([]string{}, p.LastLines...),
		PeakMemory: orNull(p.PeakMemory), CPUSeconds: orNull(p.CPUTime.Seconds()), Swept: p.Swept,
		Evidence: append([]string{}, p.Evidence...),
	}
	if d, over := ran(p); over {
		j.RanSeconds = new(d.Seconds())
	}
	return j
}
