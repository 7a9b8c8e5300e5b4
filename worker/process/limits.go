package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// of reads the soft limit of a process.
func (l limit) of(pid int) (uint64, bool) {
	var now unix.Rlimit
	if unix.Prlimit(pid, l.resource, nil, &now) == nil {
		return now.Cur, true
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits") // another user's: prlimit(2) refuses, the file does not
	if err != nil {
		return 0, false
	}
	return l.parse(data)
}

// parse finds the soft limit in the lines of /proc/PID/limits.
func (l limit) parse(data []byte) (uint64, bool) {
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte(l.line))
		if !ok {
			continue
		}
		f := bytes.Fields(rest)
		if len(f) == 0 {
			return 0, false
		}
		if string(f[0]) == "unlimited" {
			return unix.RLIM_INFINITY, true
		}
		n, err := strconv.ParseUint(string(f[0]), 10, 64)
		return n, err == nil
	}
	return 0, false
}
