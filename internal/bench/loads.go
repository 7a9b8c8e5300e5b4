package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"crawlkeeper/internal/testenv/servers"
)

// A load is a special one: a fleet that is unusual in one way.
type load struct {
	name    string
	measure func(context.Context, options, *report) error
}

var loads = []load{
	{"cron", cronLoad}, {"commands", commandLoad}, {"lines", lineLoad}, {"idle", idleLoad}, {"start", startLoad}, {"status", statusLoad},
}

// finding is one figure of a load.
type finding struct {
	Load   string `json:"load"`
	Figure string `json:"figure"`
	Value  any    `json:"value"` // a number, a text, or a spread in ms
	Unit   string `json:"unit,omitempty"`
}

type report struct {
	load     string
	findings []finding
}

func (r *report) add(figure string, value any, unit string) {
	r.findings = append(r.findings, finding{r.load, figure, value, unit})
}

// loadsOf finds loads by their names, with commas between them.
func loadsOf(names string) ([]load, error) {
	if names == "all" {
		return loads, nil
	}
	var out []load
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(loads, func(l load) bool { return l.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-loads %s: there is no %q", names, name)
		}
		out = append(out, loads[i])
	}
	return out, nil
}

// measureLoads measures one load after the other, and prints one table of all.
func measureLoads(ctx context.Context, o options, stdout, stderr io.Writer) error {
	r := &report{}
	for _, l := range o.loads {
		fmt.Fprintf(stderr, "bench: %s\n", l.name)
		r.load = l.name
		if err := l.measure(ctx, o, r); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	if o.json {
		return json.NewEncoder(stdout).Encode(r.findings)
	}
	return r.table(stdout)
}

func (r *report) table(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	last := ""
	for _, f := range r.findings {
		name := f.Load
		if name == last {
			name = ""
		}
		last = f.Load
		fmt.Fprintf(t, "%s\t%s\t%v %s\n", name, f.Figure, f.Value, f.Unit)
	}
	return t.Flush()
}

// inWorld makes a world for one load.
func inWorld(ctx context.Context, o options, n int, s setup, measure func(*world) error) (err error) {
	env, err := servers.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	w, err := newWorld(ctx, env, o, n, s)
	if err != nil {
		return err
	}
	defer w.close()
	return measure(w)
}

// until waits, for a while at most, until something holds.
func until(ctx context.Context, limit time.Duration, what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(limit); ; {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s", what, limit)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
