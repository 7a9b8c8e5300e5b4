package process

import (
	"context"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The pace of passes over what is left of trees: quick at first, as most of it dies at once, then patient.
const (
	firstPass = 200 * time.Microsecond
	lastPass  = time.Second
)

// tree is what a leader that has ended may have left. Everything but the report belongs to the keeper.
type tree struct {
	id     string
	leader int
	number uint64
	start  uint64
	done   chan struct{}
	empty  int // passes in a row that found nothing
	pause  time.Duration
	next   time.Time

	mu    sync.Mutex
	swept []Survivor
	left  []Survivor
}

func (t *tree) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Report{slices.Clone(t.swept), slices.Clone(t.left)}
}

// keeper reaps orphans and sweeps trees. One pass looks at all orphans once for all trees that wait.
type keeper struct {
	s     *Spawner
	self  int
	trees map[*tree]struct{}
	timer *time.Timer
}

func newKeeper(s *Spawner) *keeper {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &keeper{s: s, self: os.Getpid(), trees: map[*tree]struct{}{}, timer: timer}
}

func (k *keeper) run(ctx context.Context, signals <-chan os.Signal) {
	defer k.timer.Stop()
	for {
		select {
		case t := <-k.s.sweeps:
			k.add(t)
			k.drain()
		case <-signals:
		case <-k.timer.C:
		case <-ctx.Done():
			for t := range k.trees { // nobody is left to end them; the leaders' kin dies with the container or is found by its number
				k.s.live.Add(1) // for good: something may be left
				close(t.done)
			}
			return
		}
		k.pass(time.Now())
	}
}

func (k *keeper) add(t *tree) {
	t.pause = firstPass
	k.trees[t] = struct{}{}
}

// drain takes all trees that came meanwhile: thousands of ends at once are one pass.
func (k *keeper) drain() {
	for {
		select {
		case t := <-k.s.sweeps:
			k.add(t)
		default:
			return
		}
	}
}

// pass looks once at the orphans and what is below them, reaps the dead and kills what belongs to a tree that ended.
func (k *keeper) pass(now time.Time) {
	found, vanished := k.look()
	for t := range k.trees {
		if members, stirred := found[t]; stirred || vanished {
			t.empty = 0
			t.kill(members)
			k.schedule(t, now)
			continue
		}
		if t.empty++; t.empty < 2 && len(t.swept) > 0 {
			k.schedule(t, now)
			continue
		}
		t.mu.Lock()
		t.left = nil
		t.mu.Unlock()
		delete(k.trees, t)
		close(t.done)
	}
	k.arm(now)
}

func (k *keeper) schedule(t *tree, now time.Time) {
	t.next = now.Add(t.pause)
	t.pause = min(2*t.pause, lastPass)
}

func (k *keeper) arm(now time.Time) {
	var next time.Time
	for t := range k.trees {
		if next.IsZero() || t.next.Before(next) {
			next = t.next
		}
	}
	if next.IsZero() {
		k.timer.Stop()
		return
	}
	k.timer.Reset(max(0, next.Sub(now)))
}

// member is one living descendant.
type member struct {
	pid  int
	stat stat
}

// look walks down from the orphans and returns the living members of each tree that waits. A tree of which it reaped one
// is in the map too, if without members: what that one forked last may have come to us after the list was read.
// vanished tells that an orphan was gone before it was known whose it was: that holds for every tree. Without trees that
// wait it only reaps.
func (k *keeper) look() (found map[*tree][]member, vanished bool) {
	var roots []int
	if k.s.ways.Children {
		roots = children(nil, k.self, k.self)
	} else {
		roots = k.orphansByScan()
	}
	if len(roots) == 0 {
		return nil, false
	}
	w := walker{index: k.index(), found: map[*tree][]member{}, seen: map[int]bool{}, deep: len(k.trees) > 0}
	for _, pid := range roots {
		w.walk(pid, nil, true)
	}
	return w.found, w.vanished
}

type walker struct {
	index    index
	found    map[*tree][]member
	seen     map[int]bool
	deep     bool
	vanished bool
}

func (w *walker) walk(pid int, owner *tree, orphan bool) {
	if w.seen[pid] {
		return
	}
	st, ok := readStat(pid)
	number, known := numberOf(pid)
	if !ok || !known {
		w.vanished = w.vanished || orphan
		return
	}
	if !w.deep && !st.dead() {
		return
	}
	w.seen[pid] = true
	if t := w.index.owner(pid, number, st); t != nil {
		owner = t
	}
	// A dead leader of living threads is Z and cannot be reaped yet: it counts as alive.
	dead := st.dead() && (!orphan || reap(pid))
	if owner != nil && (orphan || !dead) {
		members := w.found[owner]
		if !dead {
			members = append(members, member{pid, st})
		}
		w.found[owner] = members
	}
	if dead {
		return
	}
	for _, child := range offspring(nil, pid) {
		w.walk(child, owner, false)
	}
}

// orphansByScan finds our children among all processes, less the leaders. Only for kernels that do not list children.
func (k *keeper) orphansByScan() []int {
	pids, err := allPids()
	if err != nil {
		return nil
	}
	leaders := map[int]bool{}
	for t := range k.trees {
		leaders[t.leader] = true
	}
	var out []int
	for _, pid := range pids {
		if st, ok := readStat(pid); ok && st.ppid == k.self && !leaders[pid] {
			if number, ok := numberOf(pid); !ok || pid != st.group || number>>32 != uint64(k.s.finger.prefix) {
				out = append(out, pid)
			}
		}
	}
	return out
}

// reap tells whether the process is gone now.
func reap(pid int) bool {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	return got == pid || err == syscall.ECHILD
}

// index tells which of the waiting trees a process belongs to.
type index struct {
	number map[uint64]*tree
	leader map[int]*tree
	id     map[string]*tree
	prefix uint32
}

func (k *keeper) index() index {
	x := index{map[uint64]*tree{}, map[int]*tree{}, map[string]*tree{}, k.s.finger.prefix}
	for t := range k.trees {
		if k.s.ways.Fingerprint {
			x.number[t.number] = t
		}
		x.leader[t.leader] = t
		x.id[t.id] = t
	}
	return x
}

// owner goes by the fingerprint; where a process bears none of ours, by group and session (the leader is still a
// zombie, its number cannot be another's), then by the marker in its environment.
func (x index) owner(pid int, number uint64, st stat) *tree {
	if number != unix.RLIM_INFINITY && number>>32 == uint64(x.prefix) {
		return x.number[number] // nil: a living crawler's
	}
	if t := x.leader[st.group]; t != nil {
		return t
	}
	if t := x.leader[st.sess]; t != nil {
		return t
	}
	return x.id[markerOf(pid)]
}

// kill signals each member through a pidfd of its own: between the look and the signal its number may have been used
// again, and then its start time differs.
func (t *tree) kill(members []member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = t.left[:0]
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

func killPid(pid int, start uint64) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if err == unix.ESRCH || err == unix.EINVAL {
			return nil
		}
		return err
	}
	defer unix.Close(fd)
	if st, ok := readStat(pid); !ok || st.start != start {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}
