package process

import "sync"

// living knows every tree of this operating system process from before its fork until its leader was reaped. Several
// Spawners share it, as they share the orphans.
var living = &registry{trees: map[*tree]struct{}{}, number: map[uint64]*tree{}, leader: map[int]*tree{}, id: map[string]*tree{}}

type registry struct {
	// births is held for reading from a fork until its leader is in the registry. Who goes by a list of all our
	// children holds it for writing, so that none of them is taken for an orphan.
	births sync.RWMutex

	mu     sync.Mutex
	trees  map[*tree]struct{} // guarded by mu, as the others
	number map[uint64]*tree
	leader map[int]*tree
	id     map[string]*tree
}

// add takes a tree that is about to be forked and gives it a number that no other has.
func (r *registry) add(t *tree, next func() uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t.number = next(); t.number != 0 && r.number[t.number] != nil; {
		t.number = next()
	}
	if t.number != 0 {
		r.number[t.number] = t
	}
	r.id[t.id] = t
	r.trees[t] = struct{}{}
}

func (r *registry) born(t *tree, pid int, start uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.leader, t.start = pid, start
	r.leader[pid] = t
}

func (r *registry) remove(t *tree) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.trees, t)
	if r.number[t.number] == t {
		delete(r.number, t.number)
	}
	if r.leader[t.leader] == t {
		delete(r.leader, t.leader)
	}
	if r.id[t.id] == t {
		delete(r.id, t.id)
	}
}

// byNumber finds the tree whose number a process bears. What is older than the leader is not of its tree.
func (r *registry) byNumber(number, start uint64) *tree {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.number[number]; t != nil && t.start <= start {
		return t
	}
	return nil
}

// byKin goes by group and session (the leader is not reaped yet, its number cannot be another's), then by the marker.
func (r *registry) byKin(st stat, marker func() string) *tree {
	if t := r.byGroup(st); t != nil {
		return t
	}
	id := marker() // reads /proc, which can take its time: without the lock
	if id == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.id[id]; t != nil && t.start <= st.start {
		return t
	}
	return nil
}

func (r *registry) byGroup(st stat) *tree {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pid := range []int{st.group, st.sess} {
		if t := r.leader[pid]; t != nil && t.start <= st.start {
			return t
		}
	}
	return nil
}

// youngest chooses among the trees that can own a process, by age alone. False where one of them lives on: it may be
// that one's.
func (r *registry) youngest(st stat, ended func(*tree) bool) (*tree, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *tree
	for t := range r.trees {
		switch {
		case t.start > st.start:
		case !ended(t):
			return nil, false
		case found == nil || found.start < t.start:
			found = t
		}
	}
	return found, true
}

// kin finds the tree that was seen to have a process below its leader.
func (r *registry) kin(pid int, st stat) *tree {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.trees {
		if t.kin.has(pid, st) {
			return t
		}
	}
	return nil
}

func (r *registry) leaderOf(t *tree) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.leader
}

// isLeader tells whether a process is one that a Spawner has started and not yet reaped.
func (r *registry) isLeader(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader[pid] != nil
}
