package testenv_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"crawlkeeper/internal/testenv"
)

func TestADiskIsFull(t *testing.T) {
	t.Parallel()
	dir := testenv.Disk(t, 1)
	if dir == "" {
		if os.Geteuid() == 0 {
			t.Log("nothing can be mounted here, although we are root")
		}
		return
	}
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, make([]byte, 1<<19), 0o600); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name, make([]byte, 1<<21), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("2 MiB on a disk of one: %v", err)
	}
}
