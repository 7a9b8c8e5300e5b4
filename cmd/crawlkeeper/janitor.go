package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/manager"
)

// JanitorCmd looks for what crawlers and managers left behind.
type JanitorCmd struct {
	jsonFlag
	By      string        `help:"Who asks, for the log (default: you and this host)." placeholder:"NAME"`
	Remove  bool          `help:"Remove what is surely ours and old enough; without it all is only reported."`
	Timeout time.Duration `help:"How long to wait for the manager." default:"10m"`
}

// Help is shown by --help.
func (*JanitorCmd) Help() string {
	return "The manager that is active looks, so that nothing races with a start. Where there is none, this program looks by itself, " +
		"and keeps managers from starting meanwhile; call it on the manager's host, as its user."
}

// Run writes a table, or the object that the contract describes.
func (c *JanitorCmd) Run(ctx context.Context, a *app) error {
	if c.Timeout <= 0 {
		return usagef("--timeout must be longer than 0")
	}
	client, err := a.Redis(ctx)
	if err != nil {
		return err
	}
	keys := a.config.Redis
	sender := control.Sender{Client: client, Control: keys.Control(), Replies: keys.Replies(), ManagerKey: keys.ManagerKey()}
	waiting, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	reply, err := sender.Send(waiting, control.Command{Action: control.ActionJanitor, Remove: c.Remove, By: cmp.Or(c.By, caller())})
	switch {
	case errors.Is(err, control.ErrNoManager):
		return c.alone(ctx, a)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no reply within %v: the manager may still be looking; see its log, or wait longer with --timeout", c.Timeout)
	case err != nil:
		return fmt.Errorf("ask the manager: %w", err)
	case !reply.OK || reply.Janitor == nil:
		return errors.New(cmp.Or(reply.Error, "the manager has no janitor: it is of an older version"))
	}
	return c.show(a, *reply.Janitor)
}

// alone looks without a manager.
func (c *JanitorCmd) alone(ctx context.Context, a *app) error {
	m, err := a.newManager(ctx, nil)
	if err != nil {
		return err
	}
	found, err := m.Tidy(ctx, c.Remove)
	if errors.Is(err, manager.ErrActive) {
		return fmt.Errorf("%w, but does not listen (it may be starting): try again", err)
	}
	if err != nil {
		return err
	}
	return c.show(a, found)
}

// show is an error where something could not be looked at.
func (c *JanitorCmd) show(a *app, found control.Cleaning) error {
	err := c.showCleaning(a, found)
	if err == nil && len(found.Problems) > 0 {
		err = toldError(exitFailed)
	}
	return err
}

func (c *JanitorCmd) showCleaning(a *app, found control.Cleaning) error {
	if c.JSON {
		return a.printJSON(found)
	}
	for _, p := range found.Problems {
		a.complain(p)
	}
	if len(found.Leaks) > 0 {
		t := newTable("KIND", ">AGE", "SOURCE", "REMOVED", "WHAT", "WHY NOT")
		for _, l := range found.Leaks {
			removed := cell{"no", yellow}
			if l.Removed {
				removed = cell{"yes", green}
			}
			age := shortDuration(time.Duration(l.AgeSeconds * float64(time.Second)))
			t.add(strings.ReplaceAll(l.Kind, "_", " "), age, cmp.Or(l.Source, none), removed, l.What, l.Why)
		}
		if err := a.printTable(t); err != nil {
			return err
		}
	}
	total := control.Count{}
	for _, kind := range slices.Sorted(maps.Keys(found.Kinds)) {
		total.Found += found.Kinds[kind].Found
		total.Removed += found.Kinds[kind].Removed
	}
	if found.More > 0 {
		if err := a.printf("and %d more\n", found.More); err != nil {
			return err
		}
	}
	hint := ""
	if total.Found > 0 && !c.Remove {
		hint = "; --remove removes what may be removed"
	}
	return a.printf("left behind: %d, removed: %d (what is younger than janitor.min_age, %s, is not counted)%s\n",
		total.Found, total.Removed, a.config.Janitor.MinAge, hint)
}
