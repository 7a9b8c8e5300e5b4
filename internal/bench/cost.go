package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is what /proc counts CPU time in: USER_HZ, on all machines that Go runs on.
const clockTick = 10 * time.Millisecond

// reading is what the manager and the servers have used up to a moment.
type reading struct {
	at           time.Time
	cpu          time.Duration
	switches     int
	roundTrips   int
	transactions int
	threads      int
	rss          int // KiB
}

func (w *world) reading(ctx context.Context, pid int) (reading, error) {
	r := reading{at: time.Now()}
	var err error
	if r.cpu, err = cpuOf(pid); err != nil {
		return r, err
	}
	status := statusOf(fmt.Sprintf("/proc/%d/status", pid))
	r.threads, r.rss = status["Threads"], status["VmRSS"]
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, task := range tasks {
		s := statusOf(task)
		r.switches += s["voluntary_ctxt_switches"] + s["nonvoluntary_ctxt_switches"]
	}
	info, err := w.client.InfoMap(ctx, "stats").Result()
	if err != nil {
		return r, fmt.Errorf("ask Redis: %w", err)
	}
	r.roundTrips, _ = strconv.Atoi(info["Stats"]["total_reads_processed"])
	err = w.admin.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1", database).Scan(&r.transactions)
	if err != nil {
		return r, fmt.Errorf("ask Postgres: %w", err)
	}
	return r, nil
}

// cpuOf is the processor time that a process has used, without its children's.
func cpuOf(pid int) (used time.Duration, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read what a process uses: %w", err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the state on
	for _, i := range []int{11, 12} {
		n, _ := strconv.Atoi(fields[i])
		used += time.Duration(n) * clockTick
	}
	return used, nil
}

// statusOf reads the numbers of a file like /proc/PID/status; empty where the task has ended.
func statusOf(path string) map[string]int {
	text, _ := os.ReadFile(path)
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if words := strings.Fields(value); len(words) > 0 {
			if n, err := strconv.Atoi(words[0]); err == nil {
				out[name] = n
			}
		}
	}
	return out
}

// restOf is what was used between two readings. The readers' own round trips are taken off: one a tick that was taken, and
// one for the reading.
func restOf(a, b reading, taken int) rest {
	d := b.at.Sub(a.at).Seconds()
	each := func(n int) float64 { return round(float64(n)/d, 1) }
	return rest{
		CPU: round(100*(b.cpu-a.cpu).Seconds()/d, 2), Switches: each(b.switches - a.switches),
		RoundTrips: each(b.roundTrips - a.roundTrips - taken - 1), Transactions: each(b.transactions - a.transactions),
		Memory: round(float64(b.rss)/1024, 1), Threads: b.threads,
	}
}
