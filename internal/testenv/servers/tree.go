package servers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// signalTree signals a process and all its children, of which those of Postgres are in sessions of their own. The parent
// comes first, so that a stopped one cannot make more.
func signalTree(pid int, sig syscall.Signal) {
	_ = syscall.Kill(pid, sig)
	for _, child := range children(pid) {
		signalTree(child, sig)
	}
}

func children(pid int) []int {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var pids []int
	for _, thread := range threads {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
