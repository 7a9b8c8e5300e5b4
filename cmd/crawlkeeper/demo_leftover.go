package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// orphans are the living processes that the manager has left: this process is their subreaper, so they have become its children.
// The kernel gives orphans to the main thread; servers and manager were started by others.
func orphans() []int {
	self := strconv.Itoa(os.Getpid())
	children, _ := os.ReadFile("/proc/self/task/" + self + "/children")
	var pids []int
	for field := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(field); err == nil && isAlive(field) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isAlive is false for what has ended and only waits to be reaped.
func isAlive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return !bytes.HasPrefix(after, []byte(" Z")) && !bytes.HasPrefix(after, []byte(" X"))
}
