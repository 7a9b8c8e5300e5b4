package main

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/worker/process"
)

// What a fleet needs, for each source and beside them.
const (
	filesPerSource = 3 // two pipes and a pidfd
	filesOwn       = 200
	tasksPerSource = 8 // processes and threads of a usual crawler
	tasksOwn       = 100
)

// limits compares what this process may use with the number of sources. The manager's limits are the same where it is started in the
// same way.
func (d *doctor) limits(context.Context) []finding {
	findings := []finding{fileFinding(d.count, d.filesEach(), hardLimit(unix.RLIMIT_NOFILE))}
	findings = append(findings, taskFinding(d.count, taskLimits(os.DirFS("/"), os.Geteuid() == 0)))
	ways, err := process.Probe()
	if err != nil {
		return findings // the findings about processes say so
	}
	return append(findings, queueFinding(ways.Use, hardLimit(unix.RLIMIT_LOCKS), hardLimit(unix.RLIMIT_MSGQUEUE)))
}

// filesEach is how many open files a crawler means for the manager.
func (d *doctor) filesEach() int {
	for _, a := range d.conf.Adapters {
		if slices.Contains(a.Output.To, configs.OutputFile) {
			return filesPerSource + 1
		}
	}
	return filesPerSource
}

func hardLimit(resource int) uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(resource, &limit) != nil {
		return unix.RLIM_INFINITY
	}
	return limit.Max
}

func fileFinding(sources, each int, limit uint64) finding {
	need := uint64(sources*each + filesOwn)
	if need > limit {
		return bad(fmt.Sprintf("%d sources need about %d open files, and the hard limit is %d", sources, need, limit),
			fmt.Sprintf("raise it to %d or more: ulimits.nofile (compose), LimitNOFILE= (systemd), ulimit -Hn", need*5/4))
	}
	return fine("about %d open files of %s are needed", need, limitText(limit))
}

func limitText(limit uint64) string {
	if limit >= math.MaxInt64 {
		return "any number"
	}
	return strconv.FormatUint(limit, 10)
}

// taskLimit is one limit on processes and threads.
type taskLimit struct {
	most uint64
	name string // what sets it
}

// taskLimits are the limits on processes and threads that count here. RLIMIT_NPROC does not count for root.
func taskLimits(root fs.FS, isRoot bool) []taskLimit {
	var limits []taskLimit
	if !isRoot {
		limits = append(limits, taskLimit{hardLimit(unix.RLIMIT_NPROC), "RLIMIT_NPROC (LimitNPROC=, ulimit -u)"})
	}
	for _, file := range pidsFiles(root) {
		if most, ok := readNumber(root, file); ok {
			limits = append(limits, taskLimit{most, "the cgroup's /" + file + " (pids_limit, TasksMax=)"})
		}
	}
	for _, file := range []string{"proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"} {
		if most, ok := readNumber(root, file); ok {
			limits = append(limits, taskLimit{most, "/" + file})
		}
	}
	return limits
}

// pidsFiles are the files with the limits of our cgroup and of those around it, version 2 or 1.
func pidsFiles(root fs.FS) (files []string) {
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base := ""
		switch {
		case parts[1] == "":
			base = "sys/fs/cgroup"
		case slices.Contains(strings.Split(parts[1], ","), "pids"):
			base = "sys/fs/cgroup/pids"
		default:
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			files = append(files, path.Join(base, dir, "pids.max"))
			if dir == "/" {
				break
			}
		}
	}
	return files
}

// readNumber reads a limit from a file; false where there is none, or it says max.
func readNumber(root fs.FS, file string) (uint64, bool) {
	data, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

func taskFinding(sources int, limits []taskLimit) finding {
	least := taskLimit{most: math.MaxUint64}
	for _, l := range limits {
		if l.most < least.most {
			least = l
		}
	}
	need, usual := uint64(sources+tasksOwn), uint64(sources*tasksPerSource+tasksOwn)
	do := fmt.Sprintf("raise %s to %d or more; a full limit can end the manager itself", least.name, usual)
	switch {
	case need > least.most:
		return bad(fmt.Sprintf("%d sources need %d processes at the very least, and the limit is %d", sources, need, least.most), do)
	case usual > least.most:
		return warn(fmt.Sprintf("%d sources may need %d processes and threads, and the limit is %d", sources, usual, least.most), do)
	}
	return fine("about %d processes and threads of %s may be needed", usual, limitText(least.most))
}

// queueFinding is about the limit that marks crawlers: RLIMIT_LOCKS, or, where it cannot be had, RLIMIT_MSGQUEUE. The limits are the
// hard ones, after what use says was tried.
func queueFinding(use []process.Way, locks, queues uint64) finding {
	const fix = "set LimitLOCKS=infinity (systemd), ulimits.locks: -1 (compose)"
	switch {
	case slices.Contains(use, process.ByLocks):
		return fine("crawlers are marked by RLIMIT_LOCKS; the limit on message queues (%s) is left to them", limitText(queues))
	case !slices.Contains(use, process.ByMsgqueue):
		return warn(fmt.Sprintf("crawlers cannot be marked by a limit: RLIMIT_LOCKS is limited to %d, and RLIMIT_MSGQUEUE, which is used then, to %s", locks, limitText(queues)), fix)
	case queues == unix.RLIM_INFINITY:
		return warn(fmt.Sprintf("RLIMIT_LOCKS is limited to %d, so crawlers are marked by RLIMIT_MSGQUEUE instead: it no longer bounds their message queues", locks), fix)
	}
	return warn(fmt.Sprintf("RLIMIT_LOCKS is limited to %d, so crawlers are marked by RLIMIT_MSGQUEUE instead, below its limit of %d: there is no room for the manager's name, so what a killed manager left is not found by it, and crawlers have less for message queues",
		locks, queues), fix)
}
