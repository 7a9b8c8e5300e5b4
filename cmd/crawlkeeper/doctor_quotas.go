package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/worker/process"
)

// quotas says of each adapter with limits which of them can be held here, and how.
func (d *doctor) quotas(context.Context) []finding {
	var findings []finding
	var ways process.Ways
	var here unix.CPUSet
	for _, name := range sortedKeys(d.conf.Adapters) {
		l := d.conf.Adapters[name].Limits
		if l == (configs.Limits{}) {
			continue
		}
		if findings == nil {
			var err error
			if ways, err = process.Probe(); err != nil {
				return nil // the check of processes says why
			}
			_ = unix.SchedGetaffinity(0, &here)
		}
		findings = append(findings, quotaFindings(name, l, ways, &here)...)
	}
	return findings
}

// quotaFindings are about the limits of one adapter; here are the processors that this process may use.
func quotaFindings(name string, l configs.Limits, ways process.Ways, here *unix.CPUSet) (findings []finding) {
	has := func(controller string) bool { return slices.Contains(ways.Holds, controller) }
	if l.CPU > 0 && !has("cpu") {
		findings = append(findings, bad(fmt.Sprintf("%q has limits.cpu, which only a cgroup v2 with the controller cpu can hold: %s", name, withoutCgroup(ways)),
			"give the manager a cgroup of its own with controllers (Delegate=yes for systemd, a writable cgroup for containers), or take limits.cpu away; limits.cpus needs no cgroup"))
	}
	if cpus, err := l.CPUList(); err == nil && len(cpus) > 0 && !slices.ContainsFunc(cpus, here.IsSet) {
		findings = append(findings, bad(fmt.Sprintf("%q may use the processors %s only, none of which is here", name, l.CPUs), fmt.Sprintf("correct adapters.%s.limits.cpus", name)))
	}
	var held, watched []string
	put := func(set bool, limit, controller string) {
		switch {
		case !set:
		case controller == "" || has(controller):
			held = append(held, limit)
		default:
			watched = append(watched, limit)
		}
	}
	put(l.Memory > 0, "memory", "memory")
	put(l.CPU > 0 && has("cpu"), "cpu", "cpu")
	put(l.CPUs != "", "cpus", "")
	put(l.Processes > 0, "processes", "pids")
	put(l.OpenFiles > 0, "open_files (of each process)", "")
	for limit, set := range map[string]bool{"temp_size": l.TempSize > 0, "max_age": l.MaxAge > 0, "output_rate": l.OutputRate > 0, "open_files (of all together)": l.OpenFiles > 0} {
		put(set, limit, "nobody")
	}
	slices.Sort(watched)
	var how []string
	if held != nil {
		how = append(how, "the kernel holds "+strings.Join(held, ", "))
	}
	if watched != nil {
		how = append(how, "the manager looks every few seconds at "+strings.Join(watched, ", "))
	}
	if how == nil {
		return findings
	}
	text := fmt.Sprintf("limits of %q: %s", name, strings.Join(how, "; "))
	if l.Memory > 0 && !has("memory") || l.Processes > 0 && !has("pids") {
		text += " (" + withoutCgroup(ways) + ")"
	}
	return append(findings, fine("%s", text))
}

// withoutCgroup says why limits are not held by cgroups.
func withoutCgroup(w process.Ways) string {
	for _, text := range w.Without {
		if why, ok := strings.CutPrefix(text, string(process.ByCgroup)+": "); ok {
			return "cgroup: " + why
		}
	}
	return "cgroup: " + w.HoldsNot
}
