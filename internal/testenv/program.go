package testenv

import (
	"syscall"
	"testing"

	"crawlkeeper/internal/testenv/servers"
)

// Start starts a program with this environment, whose streams are appended to log. It is killed at the end of the test.
func Start(t testing.TB, env []string, log string, argv ...string) (*servers.Program, error) {
	t.Helper()
	p, err := environment(t).Start(env, log, argv...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = p.Signal(syscall.SIGKILL)
		<-p.Exited()
	})
	return p, nil
}
