package process

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// Not parallel: it counts what others count too.
func TestOnlyWantOfDescriptorsOrMemoryMakesBlind(t *testing.T) {
	for err, want := range map[error]uint64{
		syscall.EMFILE: 1, syscall.ENFILE: 1, syscall.ENOMEM: 1,
		syscall.ENOENT: 0, syscall.ESRCH: 0, syscall.EACCES: 0, syscall.EPERM: 0, nil: 0,
	} {
		before := blind.Load()
		if err == nil {
			noteBlind(nil)
		} else {
			noteBlind(fmt.Errorf("look: %w", &os.PathError{Op: "open", Path: "/proc/1/stat", Err: err}))
		}
		if got := blind.Load() - before; got != want {
			t.Errorf("%v counts %d, want %d", err, got, want)
		}
	}
}
