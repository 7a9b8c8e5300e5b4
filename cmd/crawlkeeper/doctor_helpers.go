package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/worker/process"
)

// helpers are the commands of hooks, alerts and checks, by the key that names them. Those of webhooks are empty.
type helpers map[string][]string

func (h helpers) add(key string, hooks []configs.Hook) {
	for i, one := range hooks {
		h[fmt.Sprintf("%s[%d]", key, i)] = one.Command
	}
}

// lack is a helper that cannot be run.
type lack struct{ key, why, do string }

// helperFindings are about the programs of hooks, alerts and checks. Only what is missing is named, once for all adapters that lack it
// for the same reason: a hook that cannot run may keep every crawler from starting.
func (d *doctor) helperFindings(ctx context.Context, unused func(adapter string) bool) []finding {
	var lacks []lack // in the order in which they were found
	adapters := map[lack][]string{}
	for _, name := range sortedKeys(d.conf.Adapters) {
		for _, l := range d.lacking(ctx, d.conf.Adapters[name], d.helpersOf(name), "as the crawlers of the adapter are") {
			if adapters[l] == nil {
				lacks = append(lacks, l)
			}
			adapters[l] = append(adapters[l], name)
		}
	}
	var findings []finding
	for _, l := range lacks {
		names := make([]string, len(adapters[l]))
		for i, name := range adapters[l] {
			names[i] = strconv.Quote(name)
		}
		f := l.finding(some(names))
		if !slices.ContainsFunc(adapters[l], func(name string) bool { return !unused(name) }) {
			f.Level = levelWarn
			f.What += " (no source uses it)"
		}
		findings = append(findings, f)
	}
	for _, l := range d.lacking(ctx, d.conf.Defaults, d.ownHelpers(), "by dir and env.PATH under defaults") {
		findings = append(findings, l.finding("the manager"))
	}
	return findings
}

func (l lack) finding(who string) finding {
	return bad(fmt.Sprintf("%s cannot run what %s names: %s", who, l.key, l.why), l.do)
}

// helpersOf are those that run as the crawlers of an adapter do.
func (d *doctor) helpersOf(name string) helpers {
	a, at := d.conf.Adapters[name], "adapters."+name
	all := helpers{}
	for point, hooks := range d.conf.Hooks {
		all.add("hooks."+point, hooks)
	}
	for point, hooks := range a.Hooks {
		all.add(d.conf.SetAs(at+".hooks."+point), hooks)
	}
	for i, alert := range d.conf.Alerts {
		if alert.When != configs.AlertLeaks {
			all.add(fmt.Sprintf("alerts[%d].hooks", i), alert.Hooks)
		}
	}
	for i, c := range a.Health {
		all[fmt.Sprintf("%s[%d]", d.conf.SetAs(at+".health"), i)] = c.Command
	}
	return all
}

// ownHelpers are those that run for no source, by what all adapters share.
func (d *doctor) ownHelpers() helpers {
	all := helpers{}
	for i, alert := range d.conf.Alerts {
		if alert.When == configs.AlertLeaks {
			all.add(fmt.Sprintf("alerts[%d].hooks", i), alert.Hooks)
		}
	}
	return all
}

// lacking are those that cannot be run; sought says how they are looked for.
func (d *doctor) lacking(ctx context.Context, a configs.Adapter, all helpers, sought string) []lack {
	env := environOf(a, d.environ)
	var lacks []lack
	for _, key := range sortedKeys(all) {
		if len(all[key]) == 0 {
			continue
		}
		path, err := process.Lookup(ctx, all[key][0], a.Dir, env)
		switch {
		case err != nil:
			lacks = append(lacks, lack{key, err.Error(), fmt.Sprintf("install it, or correct %s.command; it is looked for %s", key, sought)})
		case unix.Access(path, unix.X_OK) != nil:
			lacks = append(lacks, lack{key, "this user may not execute " + path, "chmod +x it, or run the manager as a user who may"})
		}
	}
	return lacks
}
