package process

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a leader and all that descends from it.
type tree struct {
	id     string
	number uint64  // 0 where it bears none
	leader int     // written before the keeper gets the tree, read under the registry's lock before
	start  uint64  // of the leader, as leader
	cgroup *cgroup // until nothing lives in it and it is removed, or another tree's; from the end of the leader the keeper's, then of whoever sees done closed
	kin    kin
	done   chan struct{} // closed when nothing is left

	// Of the keeper alone.
	empty int // looks in a row that found nothing
	pause time.Duration
	next  time.Time

	mu    sync.Mutex
	swept []Survivor // guarded by mu
	left  []Survivor // guarded by mu
}

func (t *tree) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Report{Swept: slices.Clone(t.swept), Left: slices.Clone(t.left)}
}

// kill signals each member through a pidfd of its own: between the look and the signal its number may have been used
// again, and then its start time differs.
func (t *tree) kill(members []member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = t.left[:0]
	if t.cgroup != nil {
		t.cgroup.kill()
	}
	for _, m := range members {
		s := Survivor{m.pid, m.stat.name}
		if !slices.ContainsFunc(t.swept, func(o Survivor) bool { return o.Pid == s.Pid }) {
			t.swept = append(t.swept, s)
		}
		if err := killPid(m.pid, m.stat.start); err != nil || m.stat.state == 'D' {
			t.left = append(t.left, s)
		}
	}
}

func (t *tree) found() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.swept) > 0
}

func (t *tree) finish() {
	t.mu.Lock()
	t.left = nil
	t.mu.Unlock()
	close(t.done)
}

func killPid(pid int, start uint64) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if err == unix.ESRCH || err == unix.EINVAL {
			return nil
		}
		return err
	}
	defer unix.Close(fd)
	if st, ok := readStat(pid); start != hidden && (!ok || st.start != start) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}
