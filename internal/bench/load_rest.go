package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	fewSources  = 5
	restSeconds = 60 // the interval of a source at rest
	coldStarts  = 5
	shown       = 5000 // sources in the status
)

// idleLoad looks at a manager that has next to nothing to do.
func idleLoad(ctx context.Context, o options, r *report) error {
	return inWorld(ctx, o, fewSources, setup{interval: restSeconds * time.Second}, func(w *world) error {
		taker := takeTicks(w.redis.Addr(), w.n)
		defer taker.close()
		return w.withManager(ctx, func(m managed) error {
			if _, err := w.starts.wait(ctx, w.n, m.Exited()); err != nil {
				return err
			}
			var f figures
			if err := w.atRest(ctx, &f, m, taker); err != nil {
				return err
			}
			r.add(fmt.Sprintf("%d sources, a tick each %d s: context switches", w.n, restSeconds), f.Rest.Switches, "/s")
			r.add("CPU", round(10*f.Rest.CPU, 1), "ms/s")
			r.add("Redis round trips", f.Rest.RoundTrips, "/s")
			r.add("Postgres transactions", f.Rest.Transactions, "/s")
			r.add("memory", f.Rest.Memory, "MiB")
			r.add("threads", f.Rest.Threads, "")
			return nil
		})
	})
}

// startLoad starts the manager several times on a database that is warm and migrated.
func startLoad(ctx context.Context, o options, r *report) error {
	file, err := os.Stat(o.program)
	if err != nil {
		return fmt.Errorf("find the program to measure (make build): %w", err)
	}
	r.add("size of the program", round(float64(file.Size())/(1<<20), 1), "MiB")
	return inWorld(ctx, o, fewSources, setup{interval: seldom}, func(w *world) error {
		var took, used []float64
		for range coldStarts {
			err := w.withManager(ctx, func(m managed) error {
				all, err := w.starts.wait(ctx, w.n, m.Exited())
				if err != nil {
					return err
				}
				cpu, err := cpuOf(m.Pid())
				if err != nil {
					return err
				}
				took, used = append(took, milliseconds(all[0].at.Sub(m.began))), append(used, milliseconds(cpu))
				return w.shutdown(ctx, &figures{}, m)
			})
			if err != nil {
				return err
			}
		}
		r.add(fmt.Sprintf("exec to the first crawler's first word, median of %d", coldStarts), spreadOf(took).P50, "ms")
		r.add("  processor time, until all crawlers were up", spreadOf(used).P50, "ms")
		return nil
	})
}

// statusLoad looks at the command status where there are many sources. They need no crawlers.
func statusLoad(ctx context.Context, o options, r *report) error {
	return inWorld(ctx, o, shown, setup{interval: seldom, disabled: true}, func(w *world) error {
		return w.withManager(ctx, func(m managed) error {
			all := func() (bool, error) {
				n, err := w.client.HLen(ctx, statusKey).Result()
				return n == shown, err
			}
			if err := until(ctx, startLimit, "all sources are in the status", all); err != nil {
				return err
			}
			if err := sleep(ctx, calm); err != nil {
				return err
			}
			for _, flags := range [][]string{nil, {"--json"}} {
				took, used, err := w.statusTime(ctx, m.runner, flags...)
				if err != nil {
					return err
				}
				name := "crawlkeeper status"
				if flags != nil {
					name += " " + flags[0]
				}
				r.add(fmt.Sprintf("%s, %d sources, median of 5", name, shown), took, "ms")
				r.add("  processor time", used, "ms")
			}
			return nil
		})
	})
}
