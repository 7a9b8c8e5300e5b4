package process

import "sync"

// kin are the descendants of a leader as they were seen while it lived: where nothing marks a process, they are known
// again after they have left their group, session and parent.
type kin struct {
	mu   sync.Mutex
	seen map[int]uint64 // guarded by mu; pid to start time
}

// learn takes note of what descends from the leader now, and forgets the dead.
func (k *kin) learn(found []member) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for pid, start := range k.seen {
		if st, ok := readStat(pid); !ok || st.start != start {
			delete(k.seen, pid)
		}
	}
	if k.seen == nil {
		k.seen = make(map[int]uint64, len(found))
	}
	for _, m := range found {
		k.seen[m.pid] = m.stat.start
	}
}

// has tells whether a process was seen, or one that leads its group or session.
func (k *kin) has(pid int, st stat) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if start, ok := k.seen[pid]; ok && start == st.start {
		return true
	}
	for _, leader := range []int{st.group, st.sess} {
		if start, ok := k.seen[leader]; ok && start <= st.start {
			return true
		}
	}
	return false
}
