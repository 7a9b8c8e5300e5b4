package testenv

import (
	"testing"
	"time"
)

const pollEvery = 5 * time.Millisecond

// Eventually asks cond every 5 ms until it holds, and fails the test with what when it does not within the time.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			if !cond() {
				t.Fatalf("not within %v: %s", within, what)
			}
			return
		}
	}
}
