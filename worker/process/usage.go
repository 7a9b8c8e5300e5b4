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

// UsageOf adds up a process and what descends from it. What has left its parent is not in it.
func UsageOf(pid int) Usage {
	var u Usage
	page := int64(os.Getpagesize())
	todo := []int{pid}
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		rss, cpu, ok := usageOf(pid)
		if !ok {
			continue
		}
		u.RSS += rss * page
		u.CPU += cpu
		todo = offspring(todo, pid)
	}
	return u
}

// usageOf reads fields 14 to 17 (times) and 24 (pages) of /proc/PID/stat, proc(5).
func usageOf(pid int) (pages int64, cpu time.Duration, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 22 {
		return 0, 0, false
	}
	var ticks int64
	for _, text := range f[11:15] {
		n, _ := strconv.ParseInt(text, 10, 64)
		ticks += n
	}
	pages, err = strconv.ParseInt(f[21], 10, 64)
	return pages, time.Duration(ticks) * time.Second / ticksPerSecond, err == nil
}
