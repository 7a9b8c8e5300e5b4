package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/internal/feed"
)

// CrawlFeedCmd is the built-in crawler. The manager tells it the rest by its environment.
type CrawlFeedCmd struct {
	Source       string        `help:"Code of the source (default: CRAWLKEEPER_SOURCE)." placeholder:"CODE"`
	URL          string        `help:"Address of the feed, where a tick names none." placeholder:"URL"`
	FetchTimeout time.Duration `help:"Longest time for one fetch." default:"30s"`
	ReadTimeout  time.Duration `help:"Longest time without any progress of a fetch." default:"10s"`
	MaxBytes     int64         `help:"Largest body of an answer, after decompression." default:"10485760"`
	MaxRedirects int           `help:"How many redirects are followed." default:"5"`
}

// Run crawls until the context ends.
func (c *CrawlFeedCmd) Run(ctx context.Context, a *app) error {
	logger, err := a.crawlerLogger()
	if err != nil {
		return err
	}
	redisLog.logger.Store(logger)
	opts := feed.FromEnv(a.Environ)
	opts.Source = cmp.Or(c.Source, opts.Source)
	opts.URL = cmp.Or(c.URL, opts.URL)
	opts.Limits = feed.Limits{Total: c.FetchTimeout, Read: c.ReadTimeout, Bytes: c.MaxBytes, Redirects: c.MaxRedirects}
	opts.Logger = logger
	if err := feed.Run(ctx, opts); err != nil {
		if errors.Is(err, feed.ErrOptions) {
			return usageError{err: err}
		}
		return err
	}
	return nil
}

// crawlerLogger makes the log of a crawler, which knows nothing of the manager's configuration file.
func (a *app) crawlerLogger() (*slog.Logger, error) {
	c := configs.Default()
	a.flags.apply(c)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return slog.New(newLogHandler(a.stderr, c.Log, a.isTerminal(a.stderr), a.colours(a.stderr))), nil
}
