package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// promptSlice is the least that the kernel takes (sched_setattr(2), Linux 6.12).
const promptSlice = 100 * time.Microsecond

// promptly asks the kernel to let the calling thread run soon when it wants to: every start waits for it, it runs for a moment each
// time, and on a machine that is busy with crawlers that just start it would wait four times as long as it works. Programs that it
// forks are scheduled as ever. Where the operator gave the manager another priority, nothing is changed; older kernels ignore it.
func promptly() {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL || attr.Nice != 0 {
		return
	}
	attr.Runtime = uint64(promptSlice)
	attr.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
	_ = unix.SchedSetAttr(0, attr, 0)
}
