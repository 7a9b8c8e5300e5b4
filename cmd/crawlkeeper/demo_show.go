package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// demoReport is how often the table is written where there is no terminal to draw it on.
const demoReport = 5 * time.Second

// show shows the live table until ctx ends: the one of `status --watch`, and what to try.
func (w *demoWorld) show(ctx context.Context, a *app, stirrer *demoStirrer) error {
	shown := *a // looks at the demo's servers instead of those that are configured here
	shown.config, shown.client = w.config, w.client
	picture := func(ctx context.Context, a *app) (string, error) {
		text, err := new(StatusCmd).show(ctx, a)
		return text + w.hints(stirrer.lastNews()), err
	}
	if shown.isTerminal(shown.stdout) {
		return shown.watch(ctx, true, picture)
	}
	tick := time.NewTicker(demoReport)
	defer tick.Stop()
	for {
		text, err := picture(ctx, &shown)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if err := shown.printf("%s\n", text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// hints say what happened last and what to try.
func (w *demoWorld) hints(news string) string {
	var b strings.Builder
	if news != "" {
		fmt.Fprintf(&b, "\n%s\n", news)
	}
	fmt.Fprintln(&b, "\nTry this in another terminal:")
	fmt.Fprintf(&b, "  redis-cli -p %d publish %s '{\"action\":\"restart\",\"source\":\"%s\"}'\n",
		w.redis.Port(), w.config.Redis.Control(), w.sources[0].code)
	fmt.Fprintf(&b, "  psql '%s' -c 'SELECT * FROM crawl_runs ORDER BY id DESC LIMIT 10'\n", w.postgres.URL(demoDatabase))
	fmt.Fprintln(&b, "Ctrl-C ends it and leaves nothing behind.")
	return b.String()
}

// demoTeller writes what happens for people, away from standard output.
func demoTeller(w io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, "demo: "+format+"\n", args...) }
}
