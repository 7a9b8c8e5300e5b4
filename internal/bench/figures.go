package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figures are what was measured of one fleet. Times are in seconds, those of single things in milliseconds.
type figures struct {
	Sources int `json:"sources"`
	Floor   struct {
		Start []float64 `json:"start_s"` // before and after the fleet
		Stop  []float64 `json:"stop_s"`
		One   []float64 `json:"one_ms"`
	} `json:"floor"` // see floor
	Laden struct {
		Start []float64 `json:"start_s"`
		Stop  []float64 `json:"stop_s"`
	} `json:"laden_floor"` // see ladenFloor
	First      float64 `json:"first_start_s"` // from the manager's start to its first crawler
	Start      float64 `json:"start_s"`       // to its last
	Rest       rest    `json:"rest"`
	Ticks      ticks   `json:"ticks"`
	RestartOne spread  `json:"restart_one_ms"` // from the command to the new crawler
	Commands   float64 `json:"commands_s"`     // one for each source at once, to the last reply
	StatusRead float64 `json:"status_ms"`      // the command `status`
	RestartAll float64 `json:"restart_all_s"`
	Shutdown   float64 `json:"shutdown_s"`
	Binary     float64 `json:"binary_mib"`
}

// rest is what a fleet at rest costs: the manager alone.
type rest struct {
	CPU          float64 `json:"cpu_percent"`
	Memory       float64 `json:"memory_mib"`
	Threads      int     `json:"threads"`
	Switches     float64 `json:"context_switches_per_s"`
	RoundTrips   float64 `json:"redis_round_trips_per_s"`
	Transactions float64 `json:"postgres_transactions_per_s"`
}

// ticks are what came while the fleet was at rest.
type ticks struct {
	Came  int    `json:"came"`
	Lost  int    `json:"lost"`
	Twice int    `json:"twice"`
	Added spread `json:"added_ms"` // to each interval
}

type spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	at := func(q float64) float64 { return round(values[min(len(values)-1, int(q*float64(len(values))))], 2) }
	return spread{at(0.5), at(0.99), at(1)}
}

func (s spread) String() string { return fmt.Sprintf("%g / %g / %g ms", s.P50, s.P99, s.Max) }

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}

func seconds(d time.Duration) float64      { return round(d.Seconds(), 3) }
func milliseconds(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

func inSeconds(x float64) string { return fmt.Sprintf("%.3f s", x) }

func ratio(x, floor float64) string { return fmt.Sprintf("%.2f", x/floor) }

// table prints the figures beside the floors and their ratios to them.
func (f *figures) table(out io.Writer) error {
	start, stop, one := mean(f.Floor.Start), mean(f.Floor.Stop), mean(f.Floor.One)
	begin, end := mean(f.Laden.Start), mean(f.Laden.Stop)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for len(cells) < 6 { // a column ends where a row has no such cell
			cells = append(cells, "")
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	beside := func(name string, x, floor, laden float64) {
		row(name, inSeconds(x), inSeconds(floor), ratio(x, floor), inSeconds(laden), ratio(x, laden))
	}
	row(fmt.Sprintf("%d sources", f.Sources), "", "floor", "", "laden floor", "")
	row("first started", inSeconds(f.First))
	beside("all started", f.Start, start, begin)
	row("  each, above the floor", fmt.Sprintf("%.2f ms", 1000*(f.Start-f.First-start)/float64(f.Sources)))
	beside("restart of all", f.RestartAll, start+stop, begin+end)
	row("restart of one, p50 / p99 / max", f.RestartOne.String(), fmt.Sprintf("%.2f ms", one), ratio(f.RestartOne.P50, one))
	beside("shutdown", f.Shutdown, stop, end)
	row("a command for each source", inSeconds(f.Commands))
	row("crawlkeeper status", fmt.Sprintf("%g ms", f.StatusRead))
	row("at rest: CPU", fmt.Sprintf("%g %%", f.Rest.CPU))
	row("  memory", fmt.Sprintf("%g MiB", f.Rest.Memory))
	row("  threads", fmt.Sprint(f.Rest.Threads))
	row("  context switches", fmt.Sprintf("%g /s", f.Rest.Switches))
	row("  Redis round trips", fmt.Sprintf("%g /s", f.Rest.RoundTrips))
	row("  Postgres transactions", fmt.Sprintf("%g /s", f.Rest.Transactions))
	row("  ticks (lost, twice)", fmt.Sprintf("%d (%d, %d)", f.Ticks.Came, f.Ticks.Lost, f.Ticks.Twice))
	row("  added to each interval, p50 / p99 / max", f.Ticks.Added.String())
	row("program", fmt.Sprintf("%g MiB", f.Binary))
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	_, err := fmt.Fprintln(out)
	return err
}

// What no noise explains. startUp is what a manager may need before its first crawler on a machine that is busy.
const (
	mostRatio   = 4
	startUp     = 2.0
	mostThreads = 32
)

// check fails only where something is broken.
func (f *figures) check() error {
	var errs []error
	say := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%d sources: "+format, append([]any{f.Sources}, args...)...))
	}
	if limit := mostRatio*slices.Max(f.Floor.Start) + startUp; f.Start > limit {
		say("all were started after %.2f s: more than %d times the floor and %g s, which is %.2f s", f.Start, mostRatio, startUp, limit)
	}
	if f.Rest.Threads > mostThreads {
		say("the manager has %d threads: more than %d", f.Rest.Threads, mostThreads)
	}
	if f.Ticks.Came == 0 || f.Ticks.Lost+f.Ticks.Twice > 0 {
		say("of %d ticks %d were lost, and %d came twice", f.Ticks.Came, f.Ticks.Lost, f.Ticks.Twice)
	}
	return errors.Join(errs...)
}
