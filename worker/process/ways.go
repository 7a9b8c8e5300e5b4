package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// Way is a way of finding what belongs to a tree.
type Way string

// The ways, the strongest first.
const (
	ByCgroup   Way = "cgroup"   // a cgroup v2 of its own, and cgroup.kill
	ByLocks    Way = "locks"    // the tree's number in RLIMIT_LOCKS
	ByMsgqueue Way = "msgqueue" // the tree's number in RLIMIT_MSGQUEUE, where RLIMIT_LOCKS has a small hard limit
	ByKin      Way = "kin"      // group, session, marker in the environment, and parentage
)

// Ways says what this machine offers for ending trees whole.
type Ways struct {
	Use         []Way    // what sweeps go by here
	Without     []string // what they do not go by, and why: "cgroup: it cannot be written"
	Holds       []string // controllers of cgroups by which limits of trees can be held here, where somebody wants it
	HoldsNot    string   // why not all of them
	Fingerprint bool     // trees bear numbers, in a resource limit: what a killed manager left can be found
	Children    bool     // the kernel lists children, so /proc is not scanned
	Strangers   bool     // orphans of others come to us too (we are PID 1, or had children before): one without any mark is not ended
	Why         string   // what is missing, and what follows from it; empty where trees are surely found
}

// String names the ways in use, and then the others with the reason: "locks, kin (cgroup: it cannot be written)".
func (w Ways) String() string {
	names := make([]string, 0, len(w.Use))
	for _, u := range w.Use {
		names = append(names, string(u))
	}
	text := strings.Join(names, ", ")
	if len(w.Without) > 0 {
		text += " (" + strings.Join(w.Without, "; ") + ")"
	}
	return text
}

func (w Ways) has(way Way) bool { return slices.Contains(w.Use, way) }

// means are the ways that were chosen, ready for use.
type means struct {
	ways    Ways
	cgroups *cgroups     // nil: not used
	finger  *fingerprint // nil: not used
}

// chooseWays tests what works here. Only holds the ways that may be used, all of which must work; empty is all that do.
func chooseWays(only []Way, prefix uint32) (means, error) {
	var m means
	use := func(way Way, test func() error) {
		err := errors.New("not asked for")
		if len(only) == 0 || slices.Contains(only, way) {
			err = test()
		}
		if err != nil {
			m.ways.Without = append(m.ways.Without, fmt.Sprintf("%s: %v", way, err))
			return
		}
		m.ways.Use = append(m.ways.Use, way)
	}
	use(ByCgroup, func() (err error) { m.cgroups, err = newCgroups(prefix); return err })
	use(ByLocks, func() (err error) { m.finger, err = newFingerprint(locksLimit, prefix, false); return err })
	if m.finger == nil {
		use(ByMsgqueue, func() (err error) { m.finger, err = newFingerprint(msgqueueLimit, prefix, true); return err })
	}
	use(ByKin, func() error { return nil })
	for _, way := range only {
		if !m.ways.has(way) {
			return means{}, fmt.Errorf("find processes by %s alone: %s", way, strings.Join(m.ways.Without, "; "))
		}
	}
	m.ways.HoldsNot = "trees have no cgroups"
	if m.cgroups != nil {
		m.ways.Holds, m.ways.HoldsNot = m.cgroups.prospects()
	}
	m.ways.finish(m.finger)
	return m, nil
}

func (w *Ways) finish(f *fingerprint) {
	w.Fingerprint = f != nil
	w.Children = exists(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	w.Strangers = os.Getpid() == 1 || hadChildren()
	switch {
	case f == nil && !w.has(ByCgroup):
		w.Why = "neither a cgroup nor a resource limit can mark processes here: trees are found by parentage, group and environment only, and what a killed manager left is not found"
	case f == nil || f.room != 0:
		w.Why = "no resource limit has room for the manager's name here: what a killed manager left is not found by it"
	case !w.Children:
		w.Why = "this kernel does not list children: /proc is scanned for each end"
	}
}

// hadChildren tells whether this process had children before its first Spawner, as after "sidecar & exec …" in a shell.
var hadChildren = sync.OnceValue(func() bool { return len(offspring(nil, os.Getpid())) > 0 })

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
