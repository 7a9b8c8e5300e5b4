package main

import (
	"context"
	"fmt"

	"crawlkeeper/sql"
)

// SourcesEnableCmd turns sources on.
type SourcesEnableCmd struct {
	jsonFlag
	Codes []string `arg:"" name:"code" help:"Codes of sources."`
}

// Run enables them, all or none.
func (c *SourcesEnableCmd) Run(ctx context.Context, a *app) error {
	return a.applyEdits(ctx, sql.SourceEdit{Enabled: sql.Some(true)}, c.Codes, c.JSON)
}

// SourcesDisableCmd turns sources off.
type SourcesDisableCmd struct {
	jsonFlag
	Codes []string `arg:"" name:"code" help:"Codes of sources."`
}

// Run disables them, all or none.
func (c *SourcesDisableCmd) Run(ctx context.Context, a *app) error {
	return a.applyEdits(ctx, sql.SourceEdit{Enabled: sql.Some(false)}, c.Codes, c.JSON)
}

// SourcesSetCmd changes settings of sources. An empty value takes the setting away.
type SourcesSetCmd struct {
	jsonFlag
	Codes         []string `arg:"" name:"code" help:"Codes of sources."`
	Adapter       *string  `help:"How it is crawled: the name of an adapter of the configuration." placeholder:"NAME"`
	Interval      *string  `help:"A tick every so often." placeholder:"5m"`
	Schedule      *string  `help:"Ticks by a cron line, which wins over the interval; an empty one takes it away, as with all of these." placeholder:"LINE"`
	Timezone      *string  `help:"Time zone of the cron line." placeholder:"ZONE"`
	Jitter        *string  `help:"Ticks are late by up to this much, each source by its own part." placeholder:"30s"`
	BackfillHours *string  `help:"How far back a crawler looks." placeholder:"HOURS"`
	Payload       *string  `help:"A JSON object that is merged into the ticks." placeholder:"JSON"`
	HistoryTarget *string  `help:"How far back the history is to be fetched." placeholder:"TIME"`
}

// Run changes them, all or none.
func (c *SourcesSetCmd) Run(ctx context.Context, a *app) error {
	var edit sql.SourceEdit
	given := false
	for _, flag := range []struct {
		name, key string
		value     *string
	}{
		{"--adapter", "adapter", c.Adapter},
		{"--interval", "interval", c.Interval},
		{"--schedule", "schedule", c.Schedule},
		{"--timezone", "timezone", c.Timezone},
		{"--jitter", "jitter", c.Jitter},
		{"--backfill-hours", "backfill_hours", c.BackfillHours},
		{"--payload", "payload", c.Payload},
		{"--history-target", "history_target", c.HistoryTarget},
	} {
		if flag.value == nil {
			continue
		}
		given = true
		key, _ := keyNamed(flag.key)
		if err := key.field(&edit).readText(*flag.value); err != nil {
			return usagef("%s %w", flag.name, err)
		}
	}
	if !given {
		return usagef("say what to set, as in --interval 5m")
	}
	return a.applyEdits(ctx, edit, c.Codes, c.JSON)
}

// SourcesDeleteCmd deletes sources.
type SourcesDeleteCmd struct {
	jsonFlag
	Codes []string `arg:"" name:"code" help:"Codes of sources."`
	Yes   bool     `help:"Delete without asking back."`
}

// Run deletes them, all or none.
func (c *SourcesDeleteCmd) Run(ctx context.Context, a *app) error {
	store, there, err := a.readSources(ctx)
	if err != nil {
		return err
	}
	sources, err := chosen(there, c.Codes)
	if err != nil {
		return err
	}
	var codes []string
	for _, s := range sources {
		codes = append(codes, s.Code)
	}
	if !c.Yes {
		return usagef("%s would be deleted: add --yes if that is meant", countSources(len(codes)))
	}
	if err := store.Delete(ctx, a.config.Manager.Collector, codes); err != nil {
		return fmt.Errorf("delete sources: %w", err)
	}
	if c.JSON {
		return a.printJSON(map[string]any{"deleted": codes})
	}
	return a.printf("%s deleted\n", countSources(len(codes)))
}
