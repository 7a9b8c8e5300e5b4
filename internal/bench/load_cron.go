package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// seldom is an interval that is longer than any load.
const seldom = time.Hour

// everyMinute gives all sources one cron line.
const everyMinute = `INSERT INTO crawl_source_options (code, schedule) SELECT code, '* * * * *' FROM sources`

// spare is how many descriptors a manager needs beside one a crawler whose output is discarded.
const spare = 500

// cronLoad looks at one full minute at which all sources are due. Ticks are taken one by one, on the same processors: what that costs
// is in the lateness.
func cronLoad(ctx context.Context, o options, r *report) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Max < uint64(o.cronSources+spare) {
		return fmt.Errorf("%d crawlers need %d descriptors, and there are %d (ulimit -Hn, or a smaller -cron-sources)", o.cronSources, o.cronSources+spare, limit.Max)
	}
	s := setup{interval: seldom, output: map[string]any{"to": []string{"discard"}}, sql: everyMinute}
	return inWorld(ctx, o, o.cronSources, s, func(w *world) error {
		taker := takeTicks(w.redis.Addr(), w.n)
		defer taker.close()
		return w.withManager(ctx, func(m managed) error { return w.cron(ctx, r, m, taker) })
	})
}

// tooLate is when a tick that has not come counts as lost.
const tooLate = 45 * time.Second

func (w *world) cron(ctx context.Context, r *report, m managed, taker *taker) error {
	all, err := w.starts.wait(ctx, w.n, m.Exited())
	if err != nil {
		return err
	}
	if err := sleep(ctx, rested); err != nil {
		return err
	}
	minute := time.Now().Add(time.Second).Truncate(time.Minute).Add(time.Minute)
	if err := sleep(ctx, time.Until(minute)-time.Second); err != nil {
		return err
	}
	taker.forget()
	before, err := w.reading(ctx, m.Pid())
	if err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(minute)); err != nil {
		return err
	}
	come := func() (bool, error) { return taker.count() >= w.n, nil }
	if err := until(ctx, tooLate, "all ticks came", come); err != nil && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	after, err := w.reading(ctx, m.Pid())
	if err != nil {
		return err
	}
	late, twice := taker.lateness(minute)
	r.add("sources due in one second", w.n, "")
	r.add("all started", seconds(all[w.n-1].at.Sub(m.began)), "s")
	r.add("ticks lost", w.n-len(late), "")
	r.add("ticks twice", twice, "")
	r.add("taken after the minute, p50 / p99 / max", spreadOf(late), "")
	r.add("CPU of the manager for all", (after.cpu - before.cpu).Milliseconds(), "ms")
	r.add("Redis round trips for all", after.roundTrips-before.roundTrips-taker.count()-1, "")
	r.add("memory of the manager", round(float64(after.rss)/1024, 1), "MiB")
	r.add("threads", after.threads, "")
	return nil
}
