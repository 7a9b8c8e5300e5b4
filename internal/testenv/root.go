package testenv

import (
	"os"
	"testing"
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
