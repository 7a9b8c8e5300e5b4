package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"crawlkeeper/internal/testenv/servers"
)

// DemoCmd runs a whole small world on this machine: private servers, a site, a manager and its crawlers.
type DemoCmd struct {
	jsonFlag

	For    time.Duration `help:"End by itself after this time, counted from when all crawlers run (default: at Ctrl-C)." placeholder:"20s"`
	Scrapy bool          `help:"Crawl with the Scrapy project in examples/scrapy instead of the built-in feed crawler."`
}

// Run shows the live table, or with --json the figures at the end.
func (c *DemoCmd) Run(ctx context.Context, a *app) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hangups, stop := a.hangups() // a terminal that is closed ends it as Ctrl-C does
	defer stop()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-hangups:
			cancel()
		case <-ctx.Done():
		}
	})
	return c.run(ctx, a)
}

// run returns when ctx ends, when its time is over, or when something fails. It leaves neither processes nor files.
func (c *DemoCmd) run(ctx context.Context, a *app) (err error) {
	if err := demoBinaries(); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	env, err := servers.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close()) }()

	say := demoTeller(a.stderr)
	crawlers := feedCrawlers(program)
	if c.Scrapy {
		say("preparing the Scrapy project (the first time it installs its packages into .venv)")
		if crawlers, err = scrapyCrawlers(ctx, env, a.Environ); err != nil {
			return stoppedEarly(ctx, err)
		}
	}
	say("starting Postgres and Redis in %s", env.Dir())
	world, err := newDemoWorld(ctx, env, program, crawlers)
	if err != nil {
		return stoppedEarly(ctx, err)
	}
	defer world.close()

	figures, err := c.live(ctx, a, world, say)
	if err != nil {
		return stoppedEarly(ctx, err)
	}
	if c.JSON {
		return a.printJSON(figures)
	}
	return a.printf("%s\n", figures.sentence())
}

// live runs the site and the manager until the demo is over, and returns what happened.
func (c *DemoCmd) live(ctx context.Context, a *app, w *demoWorld, say func(string, ...any)) (*demoFigures, error) {
	siteCtx, stopSite := context.WithCancel(context.WithoutCancel(ctx)) // to the end of the crawlers
	siteFailed := make(chan error, 1)
	var site sync.WaitGroup
	site.Go(func() { siteFailed <- w.site.Run(siteCtx) })
	defer site.Wait()
	defer stopSite()

	manager, err := startDemoManager(ctx, w, a)
	if err != nil {
		return nil, err
	}
	defer manager.end()
	say("waiting for %d crawlers", len(w.sources))
	if err := w.waitUntilUp(ctx, manager); err != nil {
		return nil, err
	}
	say("the site is at %s, the manager's log in %s", w.site.URL(), manager.log)

	ctx, cancel := c.limit(ctx)
	defer cancel()
	stirrer := &demoStirrer{world: w}
	shown := make(chan error, 1)
	var busy sync.WaitGroup
	busy.Go(func() { stirrer.run(ctx) })
	if !c.JSON {
		busy.Go(func() { shown <- w.show(ctx, a, stirrer) })
	}
	select {
	case <-ctx.Done():
	case <-manager.Exited():
		err = manager.failure()
	case err = <-siteFailed:
	case err = <-shown:
	}
	cancel()
	busy.Wait()
	if err != nil {
		return nil, err
	}
	return w.finish(manager, stirrer)
}

// limit ends the demo after --for.
func (c *DemoCmd) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.For > 0 {
		return context.WithTimeout(ctx, c.For)
	}
	return context.WithCancel(ctx)
}

// demoBinaries says which packages to install where a server is missing.
func demoBinaries() error {
	var errs []error
	for _, missing := range servers.Missing() {
		errs = append(errs, missing)
	}
	return errors.Join(errs...)
}

// stoppedEarly makes no failure of a demo that was ended before it was up.
func stoppedEarly(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
