package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/worker/process"
)

func TestDoctorSaysHowLimitsAreHeld(t *testing.T) {
	t.Parallel()
	var here unix.CPUSet
	here.Set(0)
	here.Set(1)
	bare := process.Ways{Without: []string{"cgroup: it cannot be written"}}
	delegated := process.Ways{Use: []process.Way{process.ByCgroup}, Holds: []string{"cpu", "cpuset", "memory", "pids"}}
	part := process.Ways{Use: []process.Way{process.ByCgroup}, Holds: []string{"pids"}, HoldsNot: "it has no controller cpu, cpuset, memory"}
	all := configs.Limits{Memory: 1 << 30, CPU: 1, CPUs: "0-3", Processes: 9, OpenFiles: 64, TempSize: 1, MaxAge: time.Hour, OutputRate: 1}
	for name, test := range map[string]struct {
		limits configs.Limits
		ways   process.Ways
		want   []string // level and parts of what is said, a line a finding
	}{
		"with cgroups": {all, delegated, []string{"ok|the kernel holds memory, cpu, cpus, processes, open_files (of each process); the manager looks every few seconds at max_age, open_files (of all together), output_rate, temp_size"}},
		"without": {all, bare, []string{"error|limits.cpu, which only a cgroup v2 with the controller cpu can hold: cgroup: it cannot be written",
			"ok|the kernel holds cpus, open_files (of each process); the manager looks every few seconds at max_age, memory, open_files (of all together), output_rate, processes, temp_size (cgroup: it cannot be written)"}},
		"with a part":                  {configs.Limits{Memory: 1 << 30, Processes: 9}, part, []string{"ok|the kernel holds processes; the manager looks every few seconds at memory (cgroup: it has no controller"}},
		"processors that are not here": {configs.Limits{CPUs: "2"}, bare, []string{"error|may use the processors 2 only, none of which is here", "ok|the kernel holds cpus"}},
	} {
		found := quotaFindings("news", test.limits, test.ways, &here)
		if len(found) != len(test.want) {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		for i, f := range found {
			level, part, _ := strings.Cut(test.want[i], "|")
			if string(f.Level) != level || !strings.Contains(f.What, part) || f.Level == levelBad && f.Do == "" {
				t.Errorf("%s: %+v, want %s", name, f, test.want[i])
			}
		}
	}
}

// Through the whole of doctor: no word about limits where there are none.
func TestDoctorLooksAtLimitsWhereThereAreSome(t *testing.T) {
	t.Parallel()
	c := newClinic(t, "")
	count := func() (n int) {
		for _, f := range c.examine(t).Findings {
			if f.Check == "quotas" {
				n++
			}
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("%d findings about limits that nobody asked for", n)
	}
	c = newClinic(t, "defaults: {limits: {memory: 1GiB, open_files: 100}}\n")
	if n := count(); n != 1 {
		t.Errorf("%d findings", n)
	}
}
