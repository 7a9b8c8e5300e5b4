// Command bench measures what a whole fleet costs, beside a floor that was measured in the same minutes: a bare loop of
// forks of the same crawlers. It runs on private servers and leaves nothing behind.
//
// The crawler is a shell that says its code and its pid into a FIFO and waits: it starts in less than a millisecond. Ticks are
// taken by the benchmark itself, as soon as they come. Compare ratios, and figures of one run: a machine is never as quiet
// as it was the last time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	program  string
	sizes    []int
	interval time.Duration
	rest     time.Duration
	json     bool
	loads    []load // measured in place of fleets
	check    bool

	cronSources int
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == writeLines {
		if err := beWriter(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // what is deferred only gives the signals back
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	sizes := flags.String("n", "10,100,1000", "how many `sources`, one fleet after the other")
	flags.StringVar(&o.program, "program", "bin/crawlkeeper", "the `file` to measure")
	flags.DurationVar(&o.interval, "interval", 5*time.Second, "`time` between two ticks of a source, in whole seconds")
	flags.DurationVar(&o.rest, "rest", 20*time.Second, "for how `long` the fleet at rest is looked at")
	flags.BoolVar(&o.json, "json", false, "print JSON, one object a fleet")
	special := flags.String("loads", "", "measure special loads instead of fleets: all, or some of their `names` (cron, commands, lines, idle, start, status)")
	flags.IntVar(&o.cronSources, "cron-sources", 10_000, "how many `sources` the load cron has")
	flags.BoolVar(&o.check, "check", false, "fail where a figure is so bad that no noise explains it")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *special != "" {
		var err error
		if o.loads, err = loadsOf(*special); err != nil {
			return o, err
		}
	}
	if o.cronSources < 1 {
		return o, errors.New("-cron-sources takes a number above 0")
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-n %s: numbers above 0, with commas between them", *sizes)
		}
		o.sizes = append(o.sizes, n)
	}
	if o.interval < time.Second || o.interval%time.Second != 0 || o.rest < time.Second {
		return o, errors.New("-interval takes whole seconds, and -rest at least one")
	}
	if o.check && o.rest < 2*o.interval {
		return o, errors.New("-check judges intervals: -rest takes at least two of them")
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.loads != nil {
		return measureLoads(ctx, o, stdout, stderr)
	}
	var bad []error
	for _, n := range o.sizes {
		fmt.Fprintf(stderr, "bench: %d sources\n", n)
		f, err := measureFleet(ctx, o, n)
		if err != nil {
			return fmt.Errorf("%d sources: %w", n, err)
		}
		if err := show(stdout, f, o.json); err != nil {
			return err
		}
		bad = append(bad, f.check())
	}
	if o.check {
		return errors.Join(bad...)
	}
	return nil
}

func show(stdout io.Writer, f *figures, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(stdout).Encode(f)
	}
	return f.table(stdout)
}

// measureFleet measures one fleet on servers of its own.
func measureFleet(ctx context.Context, o options, n int) (*figures, error) {
	f := &figures{Sources: n}
	return f, inWorld(ctx, o, n, setup{interval: o.interval}, func(w *world) error {
		if err := w.floors(ctx, f); err != nil {
			return err
		}
		if err := w.fleet(ctx, f); err != nil {
			return err
		}
		return w.floors(ctx, f)
	})
}
