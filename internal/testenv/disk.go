package testenv

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is the folder of a file system of so many MiB that this test may fill; "" where we may not mount any.
func Disk(t testing.TB, mib int) string {
	t.Helper()
	dir, remove, err := environment(t).Disk(mib)
	switch {
	case errors.Is(err, unix.EPERM):
		return ""
	case err != nil:
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return dir
}
