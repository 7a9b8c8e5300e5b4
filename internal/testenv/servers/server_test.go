package servers

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Goroutines that hold all other threads make the main thread the likely one for the next.
func TestForkerIsNeverOnTheMainThread(t *testing.T) {
	t.Parallel()
	for range 50 {
		release := make(chan struct{})
		for range 2 * runtime.GOMAXPROCS(0) {
			held := make(chan struct{})
			go func() {
				if unix.Gettid() != os.Getpid() {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
				}
				close(held)
				<-release
			}()
			<-held
		}
		f := newForker()
		thread := make(chan int)
		f.requests <- func() { tid := unix.Gettid(); go func() { thread <- tid }() }
		if tid := <-thread; tid == os.Getpid() {
			t.Fatal("it forks on the main thread")
		}
		f.close()
		close(release)
	}
}
