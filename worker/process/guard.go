package process

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// oomScore is what a program's score is above ours: where memory runs out, programs go before their manager.
	oomScore = 100
	// spareProcesses is how many processes of the user's limit are left for us: without threads the Go runtime aborts.
	spareProcesses = 64
)

var ownScore = sync.OnceValue(func() int {
	data, _ := os.ReadFile("/proc/self/oom_score_adj")
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n
})

// goesFirst makes a program the first to be refused processes and to be killed for want of memory, before us. Where that
// is not allowed (another user's program), it stays as it is.
func goesFirst(pid int, spec *Spec) {
	score := strconv.Itoa(min(1000, ownScore()+oomScore))
	if fd, err := noEINTR(func() (int, error) {
		return unix.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	}); err == nil {
		_, _ = noEINTR(func() (int, error) { return unix.Write(fd, []byte(score)) })
		unix.Close(fd)
	}
	if _, given := spec.Rlimits["nproc"]; given {
		return
	}
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &limit) == nil && limit.Cur != unix.RLIM_INFINITY && limit.Cur > 4*spareProcesses {
		limit.Cur -= spareProcesses
		_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &limit, nil)
	}
}
