package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// RunsCmd lists runs of crawlers.
type RunsCmd struct {
	jsonFlag
	Code    string `arg:"" optional:"" help:"Only of this source."`
	Status  string `help:"Only with this status: running, interrupted, or what crawlers write." placeholder:"WORD"`
	Since   string `help:"Only those that were started since then: a time, or how long ago (24h by default with --summary)." placeholder:"2h"`
	Limit   int    `help:"At most so many, the youngest first; 0 is all." default:"20"`
	Summary bool   `help:"Count them, a line for each source; --limit has no effect."`
}

// Run writes a table, or {"runs":[…]} or {"summary":[…]}.
func (c *RunsCmd) Run(ctx context.Context, a *app) error {
	now := time.Now()
	if c.Summary {
		c.Since, c.Limit = cmp.Or(c.Since, "24h"), 0
	}
	since, err := parseSince(c.Since, now)
	if err != nil {
		return err
	}
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	runs, err := store.Runs(ctx, sql.RunFilter{Source: c.Code, Status: c.Status, Since: since, Limit: c.Limit})
	if err != nil {
		return explain(ctx, store, err)
	}
	if c.Summary {
		return a.showSummary(summarize(runs, a.config.Runs), now, c.JSON)
	}
	return a.showRuns(runs, now, c.JSON)
}

// parseSince reads a time or how long ago; nothing is the zero time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := parseSpan(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, ok := readUntil(text, now)
	if !ok {
		return time.Time{}, usagef("--since %q is neither a duration like 90m nor a time like 2026-11-29T10:41", text)
	}
	if _, err := time.Parse(clockLayout, text); err == nil && at.After(now) { // a time of day is the last one
		at = at.AddDate(0, 0, -1)
	}
	if at.After(now) {
		return time.Time{}, usagef("--since %q lies ahead", text)
	}
	return at, nil
}

func (a *app) showRuns(runs []sql.CrawlRun, now time.Time, asJSON bool) error {
	if asJSON {
		list := make([]runJSON, len(runs))
		for i, r := range runs {
			list[i] = runToJSON(r)
		}
		return a.printJSON(map[string]any{"runs": list})
	}
	t := newTable("STARTED", "SOURCE", "STATUS", "TRIGGER", ">TOOK", ">ITEMS", ">PAGES", "PROCESS", "ERROR")
	for _, r := range runs {
		t.add(relative(now, r.StartedAt), r.Source, cell{r.Status, runColour(r.Status, a.config.Runs)}, cmp.Or(r.Trigger, none),
			tookText(r, now), countText(r.Items), countText(r.Pages), shortID(r.ProcessID), r.Error)
	}
	return a.printTable(t)
}

// tookText is how long a run took, or takes so far.
func tookText(r sql.CrawlRun, now time.Time) string {
	switch d, ok := took(r); {
	case ok:
		return preciseDuration(d)
	case r.Status == statusRunning && !r.StartedAt.IsZero():
		return preciseDuration(max(0, now.Sub(r.StartedAt))) + "…"
	}
	return none
}

// took is how long a run took, false where that is not known.
func took(r sql.CrawlRun) (time.Duration, bool) {
	if r.StartedAt.IsZero() || r.FinishedAt.IsZero() {
		return 0, false
	}
	return max(0, r.FinishedAt.Sub(r.StartedAt)), true
}

// preciseDuration has two or three digits: "340 ms", "2.4 s", "90 s", "12 min".
func preciseDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	case d < 2*time.Minute:
		return unit(d, time.Second, "s")
	}
	return shortDuration(d)
}

func countText(n *int64) string {
	if n == nil {
		return none
	}
	return strconv.FormatInt(*n, 10)
}

// shortID is the end of an id, which is where those of one moment differ.
func shortID(id string) string {
	const shown = 12
	if id == "" {
		return none
	}
	return id[max(0, len(id)-shown):]
}

// The statuses of runs that the manager knows by name.
const (
	statusRunning     = "running"
	statusInterrupted = "interrupted"
)

func runColour(word string, words configs.Runs) colour {
	switch {
	case word == statusRunning:
		return cyan
	case word == statusInterrupted:
		return yellow
	case slices.Contains(words.Succeeded, word):
		return green
	case slices.Contains(words.Failed, word):
		return red
	}
	return 0
}

// runJSON is a run as --json shows it.
type runJSON struct {
	ID          string   `json:"id"`
	Source      string   `json:"source"`
	Status      string   `json:"status"`
	Trigger     *string  `json:"trigger"`
	StartedAt   *string  `json:"started_at"`
	FinishedAt  *string  `json:"finished_at"`
	TookSeconds *float64 `json:"took_seconds"`
	Error       *string  `json:"error"`
	Items       *int64   `json:"items"`
	Pages       *int64   `json:"pages"`
	TickID      *string  `json:"tick_id"`
	ProcessID   *string  `json:"process_id"`
}

func runToJSON(r sql.CrawlRun) runJSON {
	j := runJSON{
		ID: r.ID, Source: r.Source, Status: r.Status, Trigger: orNull(r.Trigger), StartedAt: timeOrNull(r.StartedAt), FinishedAt: timeOrNull(r.FinishedAt),
		Error: orNull(r.Error), Items: r.Items, Pages: r.Pages, TickID: orNull(r.TickID), ProcessID: orNull(r.ProcessID),
	}
	if d, ok := took(r); ok {
		j.TookSeconds = new(d.Seconds())
	}
	return j
}

// orNull is null for what is zero.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

func timeOrNull(at time.Time) *string {
	if at.IsZero() {
		return nil
	}
	return new(status.Isoformat(at))
}
