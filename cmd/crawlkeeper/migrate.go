package main

import (
	"context"

	"crawlkeeper/sql"
)

// MigrateCmd brings the database up to date.
type MigrateCmd struct{ jsonFlag }

// Run prints what was applied.
func (c *MigrateCmd) Run(ctx context.Context, a *app) error {
	logger, err := a.Logger()
	if err != nil {
		return err
	}
	if _, err := a.Store(ctx); err != nil {
		return err
	}
	applied, err := sql.Migrate(ctx, a.config.Postgres.URL.Reveal(), logger)
	if err != nil {
		return err
	}
	if c.JSON {
		return a.printJSON(map[string]any{"applied": append([]string{}, applied...)})
	}
	for _, name := range applied {
		if err := a.printf("applied %s\n", name); err != nil {
			return err
		}
	}
	if len(applied) == 0 {
		return a.printf("the database is up to date\n")
	}
	return nil
}
