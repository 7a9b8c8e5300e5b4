package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"crawlkeeper/internal/plain"
	"crawlkeeper/sql"
)

// SourcesApplyCmd makes the sources what a file says.
type SourcesApplyCmd struct {
	jsonFlag
	File   string `short:"f" required:"" help:"YAML or JSON: a list of sources as export prints it; - is standard input." placeholder:"FILE"`
	DryRun bool   `help:"Show what would change, and change nothing."`
	Prune  bool   `help:"Delete the sources that are not in the file."`
	Yes    bool   `help:"Delete without asking back."`
}

// Run shows what changes and changes it, in one transaction.
func (c *SourcesApplyCmd) Run(ctx context.Context, a *app) error {
	data, err := a.readSourcesFile(c.File)
	if err != nil {
		return err
	}
	name := c.File
	if name == "-" {
		name = "standard input"
	}
	wanted, err := parseSources(name, data)
	if err != nil {
		return err
	}
	store, there, err := a.readSources(ctx)
	if err != nil {
		return err
	}
	changes := compareSources(wanted, there, c.Prune)
	edits, unwanted := split(changes)
	refused := len(unwanted) > 0 && !c.Yes && !c.DryRun
	if !c.DryRun && !refused && len(changes) > 0 {
		if _, err := store.Apply(ctx, a.config.Manager.Collector, edits, unwanted...); err != nil {
			return err
		}
	}
	if err := c.show(a, changes, len(wanted), refused); err != nil {
		return err
	}
	a.warnOfSources(changes, there)
	if refused {
		return usagef("%s would be deleted: nothing was changed; add --yes if that is meant", countSources(len(unwanted)))
	}
	return nil
}

// show writes the changes and how many there are.
func (c *SourcesApplyCmd) show(a *app, changes []sourceChange, listed int, refused bool) error {
	counts := map[string]int{}
	for _, change := range changes {
		counts[change.Change]++
	}
	unchanged := listed - counts[changeCreate] - counts[changeUpdate]
	if c.JSON {
		return a.printJSON(struct {
			Applied   bool           `json:"applied"`
			Created   int            `json:"created"`
			Updated   int            `json:"updated"`
			Deleted   int            `json:"deleted"`
			Unchanged int            `json:"unchanged"`
			Changes   []sourceChange `json:"changes"`
		}{!c.DryRun && !refused, counts[changeCreate], counts[changeUpdate], counts[changeDelete], unchanged, append([]sourceChange{}, changes...)})
	}
	if err := a.printChanges(changes); err != nil {
		return err
	}
	text := fmt.Sprintf("%d created, %d changed, %d deleted, %d as they were", counts[changeCreate], counts[changeUpdate], counts[changeDelete], unchanged)
	if c.DryRun || refused {
		text = "nothing was changed; it would be: " + text
	}
	return a.printf("%s\n", text)
}

// printChanges writes a line for each source that changes.
func (a *app) printChanges(changes []sourceChange) error {
	v := a.view()
	for _, change := range changes {
		if err := a.printf("%s\n", paint(change.text(), changeColours[change.Change], v)); err != nil {
			return err
		}
	}
	return nil
}

var changeColours = map[string]colour{changeCreate: green, changeUpdate: yellow, changeDelete: red}

func (c sourceChange) text() string {
	sign := map[string]string{changeCreate: "+", changeUpdate: "~", changeDelete: "-"}[c.Change]
	var keys []string
	for _, k := range c.Keys {
		text := k.Key + " " + k.To
		if c.Change == changeUpdate {
			text = k.Key + " " + k.From + " → " + k.To
		}
		keys = append(keys, text)
	}
	return plain.Text(strings.TrimSpace(sign + " " + c.Code + "  " + strings.Join(keys, ", ")))
}

// applyEdits makes the same change to sources that exist, and says which of them it changed.
func (a *app) applyEdits(ctx context.Context, edit sql.SourceEdit, codes []string, asJSON bool) error {
	store, there, err := a.readSources(ctx)
	if err != nil {
		return err
	}
	sources, err := chosen(there, codes)
	if err != nil {
		return err
	}
	wanted := make([]sql.SourceEdit, len(sources))
	for i, s := range sources {
		wanted[i] = edit
		wanted[i].Code = s.Code
	}
	changes := compareSources(wanted, there, false)
	edits, _ := split(changes)
	if len(edits) > 0 {
		if err := store.Edit(ctx, a.config.Manager.Collector, edits); err != nil {
			return err
		}
	}
	if asJSON {
		err = a.printJSON(map[string]any{"changes": append([]sourceChange{}, changes...), "unchanged": len(sources) - len(changes)})
	} else {
		err = errors.Join(a.printChanges(changes), a.printf("%d changed, %d as they were\n", len(changes), len(sources)-len(changes)))
	}
	a.warnOfSources(changes, there)
	return err
}
