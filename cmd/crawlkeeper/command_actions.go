package main

import (
	"context"
	"time"

	"crawlkeeper/control"
)

// RestartCmd starts crawlers anew.
type RestartCmd struct {
	targets
	sending
	Rolling bool          `help:"The next ones only when the last ones are well; ends when the first three do not get well. Takes its time: see --timeout."`
	MaxDown int           `help:"With --rolling: how many may be down together." placeholder:"N"`
	Stagger time.Duration `help:"Time between two starts." placeholder:"DURATION"`
}

// Run returns when the new processes run.
func (c *RestartCmd) Run(ctx context.Context, a *app) error {
	switch {
	case c.MaxDown != 0 && !c.Rolling:
		return usagef("--max-down goes with --rolling")
	case c.MaxDown < 0 || c.Stagger < 0:
		return usagef("--max-down and --stagger must not be negative")
	}
	command := control.Command{Action: control.ActionRestart, Rolling: c.Rolling, MaxDown: c.MaxDown, Stagger: c.Stagger}
	return sendTo(ctx, a, c.targets, c.sending, command, "restarted")
}

// StopCmd has no crawler for sources.
type StopCmd struct {
	targets
	sending
}

// Run returns when nothing of the crawlers is left.
func (c *StopCmd) Run(ctx context.Context, a *app) error {
	return sendTo(ctx, a, c.targets, c.sending, control.Command{Action: control.ActionStop}, "stopped")
}

// StartCmd ends a stop.
type StartCmd struct {
	targets
	sending
}

// Run returns when the crawlers run.
func (c *StartCmd) Run(ctx context.Context, a *app) error {
	return sendTo(ctx, a, c.targets, c.sending, control.Command{Action: control.ActionStart}, "started")
}

// PauseCmd keeps ticks from sources.
type PauseCmd struct {
	targets
	sending
	Until  string `help:"Its end: a duration (90m, 12h, 7d) or a time (2026-11-29, 2026-11-29T10:41, 10:41; without a zone in this machine's). Default: until resume." placeholder:"TIME"`
	Reason string `help:"Why, for those who look at it later." placeholder:"TEXT"`
}

// Run returns when the pause holds.
func (c *PauseCmd) Run(ctx context.Context, a *app) error {
	until, err := parseUntil(c.Until, time.Now())
	if err != nil {
		return err
	}
	return sendTo(ctx, a, c.targets, c.sending, control.Command{Action: control.ActionPause, Until: until, Reason: c.Reason}, "paused")
}

// ResumeCmd ends a pause.
type ResumeCmd struct {
	targets
	sending
}

// Run returns when it has ended.
func (c *ResumeCmd) Run(ctx context.Context, a *app) error {
	return sendTo(ctx, a, c.targets, c.sending, control.Command{Action: control.ActionResume}, "resumed")
}

// TickCmd sends ticks.
type TickCmd struct {
	targets
	sending
}

// Run returns when the ticks are in their lists.
func (c *TickCmd) Run(ctx context.Context, a *app) error {
	return sendTo(ctx, a, c.targets, c.sending, control.Command{Action: control.ActionTick}, "ticked")
}

// ReloadCmd has the configuration read again: the manager's, or that of crawlers.
type ReloadCmd struct {
	targets
	sending
}

// Run returns when the manager has read it, or says what is wrong with it; for crawlers, when they have their signal.
func (c *ReloadCmd) Run(ctx context.Context, a *app) error {
	if len(c.Codes) > 0 || c.Adapter != "" || c.All {
		return sendTo(ctx, a, c.targets, c.sending, control.Command{Action: control.ActionReload}, "signalled")
	}
	return c.send(ctx, a, control.Command{Action: control.ActionReload}, "reloaded")
}

func sendTo(ctx context.Context, a *app, t targets, s sending, c control.Command, done string) error {
	if err := t.put(&c); err != nil {
		return err
	}
	return s.send(ctx, a, c, done)
}
