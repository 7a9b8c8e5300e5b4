package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/plain"
)

// targets are the sources of a command.
type targets struct {
	Codes   []string `arg:"" optional:"" name:"code" help:"Codes of sources."`
	Adapter string   `help:"All sources of this adapter." placeholder:"NAME"`
	All     bool     `help:"All sources."`
}

// put writes the targets into a command.
func (t targets) put(c *control.Command) error {
	given := 0
	for _, is := range []bool{len(t.Codes) > 0, t.Adapter != "", t.All} {
		if is {
			given++
		}
	}
	if given != 1 {
		return usagef("name either sources, or --adapter NAME, or --all")
	}
	for _, code := range t.Codes {
		if !slices.Contains(c.Sources, code) {
			c.Sources = append(c.Sources, code)
		}
	}
	c.Adapter, c.All = t.Adapter, t.All
	return nil
}

// sending is how a command is sent.
type sending struct {
	jsonFlag
	By      string        `help:"Who asks, for the log (default: you and this host)." placeholder:"NAME"`
	Timeout time.Duration `help:"How long to wait for the reply." default:"30s"`
}

// send sends a command, shows the reply, and is an error where the manager says no. done says in one word what was done.
func (s sending) send(ctx context.Context, a *app, c control.Command, done string) error {
	if s.Timeout <= 0 {
		return usagef("--timeout must be longer than 0")
	}
	client, err := a.Redis(ctx)
	if err != nil {
		return err
	}
	c.By = cmp.Or(s.By, caller())
	keys := a.config.Redis
	sender := control.Sender{Client: client, Control: keys.Control(), Replies: keys.Replies(), ManagerKey: keys.ManagerKey()}
	waiting, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	reply, err := sender.Send(waiting, c)
	switch {
	case errors.Is(err, control.ErrNoManager):
		return fmt.Errorf("%s reached nobody: %w", c.Action, a.noManager())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no reply to %s within %v: it may still take effect; look at `crawlkeeper status`, or wait longer with --timeout", c.Action, s.Timeout)
	case err != nil:
		return fmt.Errorf("send %s: %w", c.Action, err)
	}
	if s.JSON {
		err = a.printJSON(reply)
	} else {
		err = a.showReply(reply, done)
	}
	if err == nil && !reply.OK {
		err = toldError(exitFailed)
	}
	return err
}

// showReply writes a line for each source that failed, and how many did not.
func (a *app) showReply(r control.Reply, done string) error {
	if r.Error != "" {
		a.complain(r.Error)
	}
	if r.Warning != "" {
		a.complain("warning: " + r.Warning)
	}
	well, waiting := 0, 0
	for _, code := range slices.Sorted(maps.Keys(r.Results)) {
		switch result := r.Results[code]; {
		case !result.OK:
			a.complain(code + ": " + result.Error)
		case result.Tick == control.TickWaiting:
			waiting++
		default:
			well++
		}
	}
	switch {
	case r.Results == nil && r.OK:
		return a.printf("%s\n", done)
	case r.Results == nil:
		return nil
	}
	text := fmt.Sprintf("%s: %d of %s", done, well, countSources(len(r.Results)))
	if waiting > 0 {
		text += fmt.Sprintf(", %d had one waiting", waiting)
	}
	return a.printf("%s\n", text)
}

// complain writes a line to standard error.
func (a *app) complain(text string) { fmt.Fprintf(a.stderr, "crawlkeeper: %s\n", plain.Text(text)) }

// caller is who calls this program, as user@host.
func caller() string {
	name := "somebody"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	return name + "@" + cmp.Or(hostName(), "localhost")
}
