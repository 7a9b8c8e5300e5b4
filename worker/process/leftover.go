package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TempRoot is the directory in which processes get directories for temporary files.
func (s *Spawner) TempRoot() string { return s.slot.root() }

func (s *slot) root() string {
	return fmt.Sprintf("%s-%08x", slotName(s.name, s.scope, s.number), s.prefix)
}

// LostRoots are such directories of managers of this name, scope and user that do not live any more, also of earlier boots
// and containers. Our own is among them, if it is there: what is in it is lost where nobody claims it. gone are prefixes of
// managers of whatever name that are known to be dead.
func (s *Spawner) LostRoots(gone ...uint32) []string {
	var out []string
	for _, prefix := range gone {
		found, _ := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("crawlkeeper-*-%d-*-%08x", os.Getuid(), prefix)))
		out = append(out, found...)
	}
	for n := range maxSlots {
		if n != s.slot.number && s.slot.held(n) {
			continue
		}
		found, _ := filepath.Glob(slotName(s.slot.name, s.slot.scope, n) + "-*") // the pattern is plain
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// held tells whether a living manager holds a slot.
func (s *slot) held(n int) bool {
	file, err := os.OpenFile(slotName(s.name, s.scope, n)+".lock", os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return true
	}
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	return false
}

// vacant are the prefixes of this boot that no living manager bears, and our own.
func (s *Spawner) vacant() map[uint32]bool {
	out := map[uint32]bool{s.slot.prefix: true}
	for n := range maxSlots {
		if n != s.slot.number && !s.slot.held(n) {
			out[prefix(s.slot.name, s.slot.scope, n)] = true
		}
	}
	return out
}

// Leftover is a process or a cgroup that belongs to no tree of a living manager.
type Leftover struct {
	Pid    int    // 0: a cgroup
	Name   string // of the program
	Cgroup string // its directory
	Since  time.Time
	Marker string // not empty: only the environment says whose it is, which proves nothing

	start uint64
}

// Leftovers scans /proc and the cgroups for what bears our numbers, or those of managers that are gone, and belongs to no
// living tree. A tree is in the registry from before its fork, and a cgroup is ours from before it is made: what was found and
// is then not there is nobody's.
func (s *Spawner) Leftovers() []Leftover {
	var out []Leftover
	within(s.facts, func() {
		vacant := s.vacant()
		if s.cgroups != nil {
			out = s.cgroups.leftovers(vacant)
		}
		if s.finger != nil && s.finger.room == 0 {
			out = append(out, s.finger.leftovers(vacant)...)
		} else {
			out = append(out, s.markedOnly()...)
		}
	})
	return out
}

func (f *fingerprint) leftovers(vacant map[uint32]bool) []Leftover {
	var out []Leftover
	for _, m := range f.bearing(vacant) {
		number, ok := f.of(m.pid)
		if ok && vacant[uint32(number>>32)] && !living.knows(number) {
			out = append(out, Leftover{Pid: m.pid, Name: m.stat.name, Since: bornAt(m.stat.start), start: m.stat.start})
		}
	}
	return out
}

// markedOnly finds what has an id in its environment that nobody claims. It may as well be another manager's.
func (s *Spawner) markedOnly() []Leftover {
	pids, err := allPids()
	if err != nil {
		return nil
	}
	var out []Leftover
	for _, pid := range pids {
		id := markerOf(pid)
		if id == "" || s.Claimed(id) {
			continue
		}
		if st, ok := readStat(pid); ok && !st.dead() {
			out = append(out, Leftover{Pid: pid, Name: st.name, Marker: id, Since: bornAt(st.start), start: st.start})
		}
	}
	return out
}

func (c *cgroups) leftovers(vacant map[uint32]bool) []Leftover {
	var out []Leftover
	for p := range vacant {
		entries, err := os.ReadDir(filepath.Join(c.base, cgroupDir(p)))
		if err != nil {
			continue
		}
		for _, e := range entries {
			dir := filepath.Join(c.base, cgroupDir(p), e.Name())
			if info, err := e.Info(); err == nil && e.IsDir() && !c.isOurs(dir) {
				out = append(out, Leftover{Cgroup: dir, Since: info.ModTime()})
			}
		}
	}
	return out
}

// RemoveLeftover ends the process, or what is in the cgroup, which it then removes.
func (s *Spawner) RemoveLeftover(l Leftover) error {
	switch {
	case l.Marker != "":
		return errors.New("it bears no number of ours, only a variable that may be a copy: look at it, and end it by hand")
	case l.Pid != 0:
		return s.endLeftover(l)
	}
	g := &cgroup{dir: l.Cgroup}
	g.kill()
	if !s.files.try(g.remove) || exists(l.Cgroup) {
		return errors.New("something in it does not end")
	}
	return nil
}

// endLimit is how long a process may take to be gone after SIGKILL.
const endLimit = 2 * time.Second

func (s *Spawner) endLeftover(l Leftover) error {
	if err := killPid(l.Pid, l.start); err != nil {
		return fmt.Errorf("send SIGKILL: %w", err)
	}
	for end := time.Now().Add(endLimit); ; time.Sleep(time.Millisecond) {
		if st, ok := readStat(l.Pid); !ok || st.start != l.start || st.dead() {
			return nil
		}
		if time.Now().After(end) {
			return errors.New("it does not end although it was killed (state D?)")
		}
	}
}

func (r *registry) knows(number uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.number[number] != nil
}

// bornAt is when a process with this start time, in ticks since boot, was started.
func bornAt(start uint64) time.Time {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // cannot fail on a kernel that has pidfds
	return time.Now().Add(time.Duration(start)*(time.Second/ticksPerSecond) - time.Duration(ts.Nano()))
}
