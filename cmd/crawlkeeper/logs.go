package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"crawlkeeper/internal/plain"
	"crawlkeeper/sql"
)

// LogsCmd lists rows of crawl_logs, of crawlers and of the manager.
type LogsCmd struct {
	jsonFlag
	Code   string `arg:"" optional:"" help:"Only of this source."`
	Level  string `help:"Only this level and what is worse: debug, info, warning or error." placeholder:"LEVEL"`
	Since  string `help:"Only since then: a time, or how long ago." placeholder:"2h"`
	Limit  int    `help:"At most the newest so many; 0 is all." default:"100"`
	Follow bool   `short:"f" help:"Go on with new rows, until interrupted."`
}

const followEvery = 500 * time.Millisecond

// Run writes a line for each row, the oldest first; with --json a JSON object on each.
func (c *LogsCmd) Run(ctx context.Context, a *app) error {
	levels, err := levelsFrom(c.Level)
	if err != nil {
		return err
	}
	since, err := parseSince(c.Since, time.Now())
	if err != nil {
		return err
	}
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	filter := sql.LogFilter{Source: c.Code, Levels: levels, Since: since, Limit: c.Limit}
	if c.Follow {
		return c.follow(ctx, a, store, filter)
	}
	rows, err := store.Logs(ctx, filter)
	if err != nil {
		return explain(ctx, store, err)
	}
	for _, row := range rows {
		if err := c.print(a, row); err != nil {
			return err
		}
	}
	return nil
}

// follow goes on until the context ends, also while the database is away.
func (c *LogsCmd) follow(ctx context.Context, a *app, store *sql.Store, filter sql.LogFilter) error {
	said := false
	for row, err := range store.FollowLogs(ctx, filter, followEvery) {
		if err != nil {
			if !said {
				a.complain(err.Error())
			}
			said = true
			continue
		}
		said = false
		if err := c.print(a, row); err != nil {
			return err
		}
	}
	return nil
}

// logLevels are the words that stand in crawl_logs.level, from the least severe on.
var logLevels = [][]string{{"DEBUG"}, {"INFO"}, {"WARNING", "WARN"}, {"ERROR"}, {"CRITICAL", "FATAL"}}

// levelsFrom are the words of a level and of all worse ones, as people write them; nothing is every word.
func levelsFrom(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	from := slices.IndexFunc(logLevels, func(words []string) bool { return slices.Contains(words, strings.ToUpper(text)) })
	if from < 0 {
		return nil, usagef("--level %q is none of debug, info, warning, error", text)
	}
	words := slices.Concat(logLevels[from:]...)
	for _, word := range slices.Clone(words) {
		words = append(words, strings.ToLower(word))
	}
	return words, nil
}

// logJSON is a row as --json shows it.
type logJSON struct {
	ID        string  `json:"id"`
	CreatedAt *string `json:"created_at"`
	Level     string  `json:"level"`
	Source    *string `json:"source"`
	RunID     *string `json:"run_id"`
	Message   string  `json:"message"`
}

func (c *LogsCmd) print(a *app, row sql.LogRow) error {
	if c.JSON {
		return a.printJSON(logJSON{row.ID, timeOrNull(row.CreatedAt), row.Level, orNull(row.Source), orNull(row.RunID), row.Message})
	}
	at := none
	if !row.CreatedAt.IsZero() {
		at = row.CreatedAt.Local().Format(time.DateTime)
	}
	v := a.view()
	level := paint(plain.Text(fmt.Sprintf("%-7s", row.Level)), levelColour(row.Level), v)
	return a.printf("%s  %s  %s  %s\n", at, level, paint(plain.Text(cmp.Or(row.Source, none)), bold, v), plain.Text(row.Message))
}

func levelColour(word string) colour {
	switch strings.ToUpper(word) {
	case "WARNING", "WARN":
		return yellow
	case "ERROR", "CRITICAL", "FATAL":
		return red
	case "DEBUG":
		return dim
	}
	return 0
}
