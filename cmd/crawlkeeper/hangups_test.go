package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// A SIGHUP that comes while a manager ends does not kill it: this test would not come to its end. Not parallel, as signals are the whole process's.
func TestLateHangup(t *testing.T) {
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	signals, stop := hangups()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-signals
	stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("it is not ignored")
	}
}
