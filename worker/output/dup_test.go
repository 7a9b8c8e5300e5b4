package output

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// duplicate does what a fork does to a descriptor.
func duplicate(t testing.TB, f *os.File) *os.File {
	t.Helper()
	if f == nil {
		return nil
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}
