package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a living tree uses.
type Usage struct {
	RSS int64         // bytes in memory; pages that processes share count in each of them
	CPU time.Duration // user and system time since the start, of children that were waited for too
}

// ticksPerSecond is USER_HZ, which is 100 on every architecture that Go runs on.
const ticksPerSecond = 100

// Census is what all processes use at one time: one pass over /proc serves every tree.
type Census struct {
	uses     map[int]Usage
	children map[int][]int
}

// TakeCensus looks at every process once.
func TakeCensus() Census {
	c := Census{uses: map[int]Usage{}, children: map[int][]int{}}
	pids, err := allPids()
	if err != nil {
		return c
	}
	page := int64(os.Getpagesize())
	for _, pid := range pids {
		if parent, pages, cpu, ok := usageOf(pid); ok {
			c.uses[pid] = Usage{RSS: pages * page, CPU: cpu}
			c.children[parent] = append(c.children[parent], pid)
		}
	}
	return c
}

// Of adds up a process and what descends from it. What has left its parent is not in it.
func (c Census) Of(pid int) Usage {
	u := c.uses[pid]
	for _, child := range c.children[pid] {
		below := c.Of(child)
		u.RSS += below.RSS
		u.CPU += below.CPU
	}
	return u
}

// usageOf reads fields 4 (parent), 14 to 17 (times) and 24 (pages) of /proc/PID/stat, proc(5).
func usageOf(pid int) (parent int, pages int64, cpu time.Duration, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, 0, false
	}
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 22 {
		return 0, 0, 0, false
	}
	var ticks int64
	for _, text := range f[11:15] {
		n, _ := strconv.ParseInt(text, 10, 64)
		ticks += n
	}
	parent, _ = strconv.Atoi(f[1])
	pages, err = strconv.ParseInt(f[21], 10, 64)
	return parent, pages, time.Duration(ticks) * time.Second / ticksPerSecond, err == nil
}
