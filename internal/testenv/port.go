package testenv

import (
	"errors"
	"syscall"
	"testing"
	"time"
)

// FreePort reserves a TCP port on 127.0.0.1 until the tests of this process are over.
func FreePort(t testing.TB) int {
	t.Helper()
	number, err := environment(t).FreePort()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return number
}

// ListenAgain calls listen, for a port on which this process has listened before, until the port is free. One that was closed
// stays taken for as long as a child that was forked meanwhile has not come to its exec.
func ListenAgain(t testing.TB, listen func() error) error {
	t.Helper()
	var err error
	Eventually(t, time.Minute, "the port is free again", func() bool {
		err = listen()
		return !errors.Is(err, syscall.EADDRINUSE)
	})
	return err
}
