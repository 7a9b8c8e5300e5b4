package testenv

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Root tells whether a test, or what follows in it, can be done: only root can. Who is not root finds in the test's log what was left out.
func Root(t testing.TB, what string) bool {
	t.Helper()
	if os.Geteuid() == 0 {
		return true
	}
	t.Logf("needs root, left out: it %s", what)
	return false
}

// Nice is a nice value that a test may ask for whoever runs it: this one, or our own where that is higher, as only root may go below it.
func Nice(wanted int) int {
	kernel, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less the value
	if err != nil {
		return wanted
	}
	return max(wanted, 20-kernel)
}
