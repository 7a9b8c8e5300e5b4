package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"

	"crawlkeeper/manager"
	"crawlkeeper/worker/output"
)

// RunCmd is the daemon.
type RunCmd struct {
	DryRun bool `help:"Only show what would start, be marked and be ticked; nothing is changed."`
	JSON   bool `name:"json" help:"With --dry-run: print JSON."`
}

// Run lives until the context ends, or a part of the manager is broken.
func (c *RunCmd) Run(ctx context.Context, a *app) error {
	switch {
	case c.DryRun:
		return dryRun(ctx, a, c.JSON)
	case c.JSON:
		return usagef("--json goes with --dry-run; for the log use --log-format json")
	}
	memory := &footprint{fixed: a.getenv("GOGC") != ""}
	memory.pace(true)
	hangups, stop := a.hangups()
	defer stop()

	m, err := a.newManager(ctx, memory.pace)
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	beside.Go(func() { memory.run(ctx) })
	beside.Go(func() {
		for {
			select {
			case <-hangups:
				m.Reload()
			case <-ctx.Done():
				return
			}
		}
	})
	return m.Run(ctx)
}

// hangups is a channel of SIGHUPs; nothing comes where there are none.
func (a *app) hangups() (<-chan os.Signal, func()) {
	if a.Hangups == nil {
		return nil, func() {}
	}
	return a.Hangups()
}

// newManager makes a manager of the configuration. Its log and its crawlers' output go to standard error, line by line.
func (a *app) newManager(ctx context.Context, busy func(bool)) (*manager.Manager, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	if !conf.HTTP.Pprof {
		withoutProfile()
	}
	forwarder, err := a.newForwarder()
	if err != nil {
		return nil, err
	}
	logger := slog.New(newLogHandler(forwarder, conf.Log, a.isTerminal(a.stderr), a.colours(a.stderr)))
	redisLog.logger.Store(logger)
	client, err := a.OpenRedis()
	if err != nil {
		return nil, err
	}
	store, err := a.openStore(ctx, logger)
	if err != nil {
		return nil, err
	}
	build := readBuild()
	return manager.New(manager.Options{
		Config: conf, Load: a.loadConfig, Redis: client, Store: store, Environ: a.Environ, Logger: logger,
		Forwarder: forwarder, Kill: a.Kill, Busy: busy, Step: []string{"/proc/self/exe", stepCommand}, Version: build.Version, Revision: build.Commit,
	})
}

// newForwarder writes to standard error, which may go away without ending the program.
func (a *app) newForwarder() (*output.Forwarder, error) {
	format := output.JSON
	if logsText(a.config.Log, a.isTerminal(a.stderr)) {
		format = output.Text
	}
	w := a.stderr
	if w == io.Writer(os.Stderr) {
		own, err := output.OwnStderr()
		if err != nil {
			return nil, err
		}
		w = own
	}
	return output.NewForwarder(w, format), nil
}
