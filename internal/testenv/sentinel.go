package testenv

import (
	"testing"

	"crawlkeeper/internal/testenv/servers"
)

// SentinelMaster is how a Sentinel calls its primary.
const SentinelMaster = servers.SentinelMaster

// Sentinel starts a sentinel that watches the primary on this port of 127.0.0.1, and returns its host and port. It promotes a
// replica only when it is told to.
func Sentinel(t testing.TB, port int) string {
	t.Helper()
	addr, err := environment(t).StartSentinel(t.Context(), "127.0.0.1", port)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return addr
}
