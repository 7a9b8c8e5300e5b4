package main

import (
	"context"
	"errors"
	"slices"

	"crawlkeeper/sql"
)

// SourcesCmd lists and changes the sources of the collector that is configured.
type SourcesCmd struct {
	List     SourcesListCmd     `cmd:"" default:"withargs" help:"List the sources (default)."`
	Show     SourcesShowCmd     `cmd:"" help:"Show all that is known of one source."`
	Apply    SourcesApplyCmd    `cmd:"" help:"Create and change sources as a file says."`
	Export   SourcesExportCmd   `cmd:"" help:"Print the sources as a file for apply."`
	Enable   SourcesEnableCmd   `cmd:"" help:"Send sources ticks."`
	Disable  SourcesDisableCmd  `cmd:"" help:"Send sources no ticks."`
	Set      SourcesSetCmd      `cmd:"" help:"Change settings of sources."`
	Delete   SourcesDeleteCmd   `cmd:"" help:"Delete sources; their runs, logs and processes stay."`
	Backfill SourcesBackfillCmd `cmd:"" help:"Have a source fetch its history, and show how far it came."`
}

// readSources reads the sources of our collector.
func (a *app) readSources(ctx context.Context) (*sql.Store, []sql.Source, error) {
	store, err := a.Store(ctx)
	if err != nil {
		return nil, nil, err
	}
	sources, err := store.Sources(ctx, a.config.Manager.Collector)
	if err != nil {
		return nil, nil, explain(ctx, store, err)
	}
	return store, sources, nil
}

// explain says that the database is not migrated where that is why it refused something.
func explain(ctx context.Context, store *sql.Store, err error) error {
	if _, why := store.Check(ctx); errors.Is(why, sql.ErrNotMigrated) {
		return why
	}
	return err
}

// chosen are those of the sources that are named; codes that do not exist are an error.
func chosen(sources []sql.Source, codes []string) ([]sql.Source, error) {
	var found []sql.Source
	var unknown []string
	for _, code := range unique(codes) {
		i := slices.IndexFunc(sources, func(s sql.Source) bool { return s.Code == code })
		if i < 0 {
			unknown = append(unknown, code)
			continue
		}
		found = append(found, sources[i])
	}
	if unknown != nil {
		return nil, &sql.UnknownSourcesError{Codes: unknown}
	}
	return found, nil
}

func unique(texts []string) (list []string) {
	for _, text := range texts {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}
