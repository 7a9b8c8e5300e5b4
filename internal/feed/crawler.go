package feed

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// grace is how long a run that is open has after the crawler was asked to stop, for
// a transaction that is under way and for closing it as interrupted. Half a second
// is a hundred times what a healthy database needs, and leaves as much of the
// second in which the crawler must be gone. It is a favour, not a duty: a run that
// stays `running` is marked by the manager.
const grace = 500 * time.Millisecond

// closeLimit bounds the farewell to a database that hangs.
const closeLimit = 200 * time.Millisecond

// stoppedText begins as the manager's own words do, so that both are found together.
const stoppedText = "crawler ended before this run was finished: it was asked to stop"

// crawler is one running crawl-feed. One goroutine uses it.
type crawler struct {
	opts  Options
	log   *slog.Logger
	queue *queue
	store *store
	fetch *fetcher

	pages, items int64 // since the start, for the heartbeat
}

// Run crawls a source until ctx ends: it takes ticks and makes one run of each. It
// returns nil when ctx has ended, within a second, and an ErrOptions when it
// cannot begin. Nothing else ends it.
func Run(ctx context.Context, opts Options) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	opts = opts.withDefaults()
	c := &crawler{opts: opts, log: opts.Logger.With("source", opts.Source), fetch: newFetcher(opts.Limits)}
	defer c.fetch.close()
	var err error
	if c.queue, err = newQueue(opts, c.log); err != nil {
		return err
	}
	defer c.queue.close()
	defer context.AfterFunc(ctx, c.queue.close)() // a BLPOP does not look at its context
	if c.store, err = newStore(opts); err != nil {
		return err
	}
	defer c.store.close(closeLimit)

	for {
		data, err := c.queue.take(ctx, func() { c.beat(ctx) })
		if err != nil {
			return nil
		}
		c.visit(ctx, data)
	}
}

func (c *crawler) beat(ctx context.Context) { c.queue.beat(ctx, c.pages, c.items) }

// visit makes the run that a tick asks for, from its row to its last line in the log.
func (c *crawler) visit(ctx context.Context, data string) {
	db, release := outlive(ctx, grace)
	defer release()
	t, tickErr := decodeTick(data)
	r := &run{tick: t, started: now()}
	tries := 0
	err := c.retry(ctx, func() error {
		tries++
		return c.store.openRun(db, r, tries > 1)
	})
	if err != nil {
		c.log.Error("cannot open a run, the tick is lost", "trigger", t.Trigger, "error", err)
		return
	}
	c.beat(ctx)
	if err = tickErr; err == nil {
		err = c.crawl(ctx, db, r)
	}
	end := endingOf(ctx, err)
	if err != nil {
		if closeErr := c.retry(ctx, func() error { return c.store.closeRun(db, r, end) }); closeErr != nil {
			c.log.Error("cannot close the run", "run", r.id, "error", closeErr)
		}
	}
	c.beat(ctx)
	c.report(r, end)
}

// endingOf says what the error of a run makes of it.
func endingOf(ctx context.Context, err error) ending {
	switch {
	case err == nil:
		return ending{status: succeeded}
	case ctx.Err() != nil:
		return ending{status: interrupted, err: stoppedText}
	default:
		return ending{status: failed, err: errorText(err)}
	}
}

// report is the line a run.
func (c *crawler) report(r *run, end ending) {
	attrs := []any{
		"run", r.id, "trigger", r.tick.Trigger, "status", end.status,
		"pages", r.pages, "items", r.items, "took", time.Since(r.started).Round(time.Millisecond),
	}
	if end.status == failed {
		c.log.Warn("run finished", append(attrs, "error", end.err)...)
		return
	}
	c.log.Info("run finished", attrs...)
}

// retry does f, and does it again while the database is away, until ctx ends.
func (c *crawler) retry(ctx context.Context, f func() error) error {
	var pause delay
	for {
		err := f()
		if err == nil || ctx.Err() != nil || !transient(err) {
			return err
		}
		if pause.next == 0 {
			c.log.Warn("database is away, trying again", "error", err)
		}
		c.beat(ctx)
		if !pause.wait(ctx) {
			return err
		}
	}
}

// save stores a page, and the successful end of the run with it where it is the last.
func (c *crawler) save(ctx, db context.Context, r *run, p page, last bool) error {
	var end *ending
	if last {
		end = &ending{status: succeeded}
	}
	var stored int64
	err := c.retry(ctx, func() (err error) {
		stored, err = c.store.savePage(db, r, p, end)
		return err
	})
	if err != nil {
		return err
	}
	r.items += stored
	c.items += stored
	c.beat(ctx)
	return nil
}

// countPage counts a document that was fetched or found unchanged.
func (c *crawler) countPage(r *run) {
	r.pages++
	c.pages++
}

// errNoURL is the failure of a run whose tick names no feed.
var errNoURL = errors.New("no feed address: the tick has no url (set one in the source's payload)")
