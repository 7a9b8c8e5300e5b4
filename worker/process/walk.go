package process

import (
	"maps"
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
	w := walker{k: k, found: map[*tree][]member{}, seen: map[int]bool{}, deep: len(k.trees) > 0}
	for _, pid := range k.roots() {
		w.walk(pid, nil, true)
	}
	maps.DeleteFunc(k.unmarked, func(pid int, _ sighting) bool { return w.deep && !w.seen[pid] })
	return w.found, w.vanished
}

// roots are our children that are no leaders.
func (k *keeper) roots() []int {
	if k.s.ways.Children {
		return children(nil, k.self, k.self)
	}
	pids, err := allPids()
	if err != nil {
		return nil
	}
	living.births.Lock() // a leader that is on the list must be in the registry
	defer living.births.Unlock()
	var out []int
	for _, pid := range pids {
		if st, ok := readStat(pid); ok && st.ppid == k.self && !living.isLeader(pid) {
			out = append(out, pid)
		}
	}
	return out
}

type walker struct {
	k        *keeper
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
	if !ok {
		if orphan {
			w.unread(pid)
		}
		return
	}
	if !w.deep && !st.dead() {
		return
	}
	own, known := w.k.s.owner(pid, st)
	if !known {
		w.vanished = w.vanished || orphan
		return
	}
	w.seen[pid] = true
	if own != nil {
		owner = own
	}
	if owner == nil && orphan && w.deep {
		owner = w.stray(pid, st)
	}
	// A dead leader of living threads is Z and cannot be reaped yet: it counts as alive.
	dead := st.dead() && (!orphan || reap(pid))
	_, waits := w.k.trees[owner]
	if waits && (orphan || !dead) {
		members := w.found[owner]
		if !dead {
			members = append(members, member{pid, st})
		}
		w.found[owner] = members
	}
	if dead || owner != nil && !waits { // below a living tree's there is nothing of ours to end
		return
	}
	for _, child := range offspring(nil, pid) {
		w.walk(child, owner, false)
	}
}

// hidden is the start time of an orphan that /proc does not show us (hidepid, and another user's or not dumpable). Its pid
// cannot be used again: it is our child, and only we reap it.
const hidden = 0

// unread looks at an orphan that could not be read. It is gone, and then it may have been any tree's; or /proc hides it, and
// then its number is all there is to know.
func (w *walker) unread(pid int) {
	switch stateOf(pid) {
	case orphanGone:
		w.vanished = true
	case orphanDead:
		w.seen[pid] = true
		reap(pid)
		w.vanished = true
	case orphanAlive:
		w.seen[pid] = true
		number, ok := w.k.s.finger.of(pid)
		if !ok {
			return
		}
		if t := living.byNumber(number, math.MaxUint64); t != nil {
			if _, waits := w.k.trees[t]; waits {
				w.found[t] = append(w.found[t], member{pid, stat{name: "(hidden)", start: hidden}})
			}
		}
	}
}

type orphanState int

const (
	orphanGone orphanState = iota
	orphanDead
	orphanAlive
)

// stateOf asks the kernel about a child, without /proc and without reaping it.
func stateOf(pid int) orphanState {
	var info siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return orphanGone
		case info.pid != 0:
			return orphanDead
		}
		return orphanAlive
	}
}

// owner finds the tree of a process: by the number that it bears, else, where that way is used, by kinship. False where
// the process is gone.
func (s *Spawner) owner(pid int, st stat) (*tree, bool) {
	number, ok := s.finger.of(pid)
	if !ok {
		return nil, false
	}
	if t := living.byNumber(number, st.start); t != nil {
		return t, true
	}
	if !s.ways.has(ByKin) {
		return nil, true
	}
	if t := living.byKin(st, func() string { return markerOf(pid) }); t != nil {
		return t, true
	}
	if s.finger == nil {
		if t := living.kin(pid, st); t != nil {
			return t, true
		}
	}
	return nil, true
}

// stray decides about an orphan without any mark. Orphans come to us from our own trees alone, unless we are PID 1 or
// had children before. It belongs to a tree that ended if no living one can have started it; else it is counted and
// left, and looked at again at the next end.
//
// One that is just ending has lost its marks with its memory, and what it forked last is about to come to us; one that
// is in the middle of an exec has none for a moment. Both hold for every tree, as one that vanished does.
func (w *walker) stray(pid int, st stat) *tree {
	k := w.k
	if st.dead() || st.empty {
		w.vanished = true
		return nil
	}
	if !k.s.ways.has(ByKin) {
		return nil
	}
	if !k.s.ways.Strangers {
		t, sure := living.youngest(st, func(t *tree) bool { _, waits := k.trees[t]; return waits })
		if sure && t != nil {
			return t
		}
	}
	switch seen := k.unmarked[pid]; {
	case seen.start != st.start:
		k.unmarked[pid] = sighting{start: st.start}
		w.vanished = true
	case !seen.counted:
		k.unmarked[pid] = sighting{st.start, true}
		k.s.unmarked.Add(1)
	}
	return nil
}

// sighting is an orphan without any mark that was seen.
type sighting struct {
	start   uint64
	counted bool
}

// reap tells whether the process is gone now.
func reap(pid int) bool {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	return got == pid || err == syscall.ECHILD
}
