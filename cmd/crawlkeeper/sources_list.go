package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/manager"
	"crawlkeeper/manager/schedule"
	"crawlkeeper/sql"
)

// SourcesListCmd lists the sources.
type SourcesListCmd struct{ jsonFlag }

// Run writes a table, or {"sources":[…]}.
func (c *SourcesListCmd) Run(ctx context.Context, a *app) error {
	_, sources, err := a.readSources(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return a.printSources(sources)
	}
	if len(sources) == 0 {
		a.complain(fmt.Sprintf("the collector %q has no sources; `crawlkeeper sources apply` makes some", a.config.Manager.Collector))
		return nil
	}
	now := time.Now()
	t := newTable("SOURCE", "ADAPTER", "ENABLED", "WHEN", ">BACKFILL", ">FAILURES", "NOTES")
	for _, s := range sources {
		enabled := cell{"yes", green}
		if !s.Enabled {
			enabled = cell{"no", dim}
		}
		t.add(s.Code, cmp.Or(s.Adapter, none), enabled, whenText(s), hoursText(s.BackfillHours), s.ConsecutiveFailures, notes(a.config, s, now))
	}
	return a.printTable(t)
}

func hoursText(hours *int) string {
	if hours == nil {
		return none
	}
	return strconv.Itoa(*hours) + " h"
}

// notes are what is not as usual with a source.
func notes(c *configs.Config, s sql.Source, now time.Time) cell {
	var parts []string
	problem := problemOf(c, s)
	if problem != "" {
		parts = append(parts, problem)
	}
	if s.Wanted == sql.WantedStopped {
		parts = append(parts, "stopped")
	}
	if s.PausedUntil.After(now) {
		parts = append(parts, pausedText(s, now))
	}
	if s.History.Open() {
		parts = append(parts, "history to "+s.History.Target+", at "+cmp.Or(s.History.Position, "its start"))
	}
	text := cell{text: strings.Join(parts, "; ")}
	if problem != "" {
		text.colour = red
	}
	return text
}

func pausedText(s sql.Source, now time.Time) string {
	text := "paused"
	if s.PausedBy != "" {
		text += " by " + s.PausedBy
	}
	if until := relative(now, s.PausedUntil); until != "never" {
		text += ", ends " + until
	}
	if s.PauseReason != "" {
		text += ": " + s.PauseReason
	}
	return text
}

// problemOf is why a source has no crawler or no ticks, "" where it has both.
func problemOf(c *configs.Config, s sql.Source) string {
	noCrawl, noTicks := manager.CheckSource(c, s)
	switch {
	case noCrawl != "":
		return "no crawler: " + noCrawl
	case noTicks != "":
		return "no ticks: " + noTicks
	}
	return ""
}

// printSources writes all keys of the sources as JSON.
func (a *app) printSources(sources []sql.Source) error {
	objects := make([]json.RawMessage, 0, len(sources))
	for _, s := range sources {
		object, err := sourceJSON(a.config, s)
		if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	return a.printJSON(map[string]any{"sources": objects})
}

func sourceJSON(c *configs.Config, s sql.Source) (json.RawMessage, error) {
	n := sourceNode(s, true, true)
	problem := nullNode()
	if text := problemOf(c, s); text != "" {
		problem = scalar("!!str", text)
	}
	n.Content = append(n.Content, scalar("!!str", "problem"), problem)
	var b bytes.Buffer
	if err := appendJSON(&b, n); err != nil {
		return nil, fmt.Errorf("write source %q: %w", s.Code, err)
	}
	return b.Bytes(), nil
}

// SourcesShowCmd shows one source.
type SourcesShowCmd struct {
	jsonFlag
	Code string `arg:"" help:"Code of the source."`
}

// Run writes a line for each key, or the object that list has.
func (c *SourcesShowCmd) Run(ctx context.Context, a *app) error {
	_, all, err := a.readSources(ctx)
	if err != nil {
		return err
	}
	sources, err := chosen(all, []string{c.Code})
	if err != nil {
		return err
	}
	if c.JSON {
		object, err := sourceJSON(a.config, sources[0])
		if err != nil {
			return err
		}
		return a.printJSON(object)
	}
	return a.printTable(showTable(a.config, sources[0], time.Now()))
}

func showTable(c *configs.Config, s sql.Source, now time.Time) *table {
	t := newTable("KEY", "VALUE")
	t.add("code", s.Code)
	edit := editOf(s)
	for _, key := range sourceKeys {
		if text, isValue := key.field(&edit).canon(); isValue {
			t.add(key.name, text)
		}
	}
	if adapter, ok := c.Adapter(s.Adapter); ok {
		t.add("command", strings.Join(configs.MaskArgs(adapter.Argv(s.Code)), " "))
	}
	if plan, err := schedule.Cron(s.Schedule, s.Timezone, s.Jitter); err == nil {
		for range 3 {
			now = plan.Next(now, now)
			t.add("due", now.Format(time.RFC3339))
		}
	}
	if problem := problemOf(c, s); problem != "" {
		t.add("problem", cell{problem, red})
	}
	return t
}
