package process

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Sample looks at the living tree and keeps the highest memory seen. To be called now and then while the process lives;
// a stop does so too.
func (p *Process) Sample() {
	select {
	case <-p.exited:
		return
	default:
	}
	within(p.spawner.facts, func() {
		found, peak := p.below(), highWater(p.pid)
		for _, m := range found {
			peak += highWater(m.pid)
		}
		select {
		case <-p.exited: // what was seen may be another tree's already
			return
		default:
		}
		if p.spawner.finger == nil {
			p.tree.kin.learn(found)
		}
		p.raisePeak(peak)
		p.spawner.oom.look(time.Now())
	})
}

// below are the living processes of the tree but for the leader. A cgroup with none below it lists them in one file; elsewhere what
// has left its parent is not among them.
func (p *Process) below() (found []member) {
	if p.cgroup == nil || !p.cgroup.single() {
		return descendants(p.pid)
	}
	for _, pid := range p.cgroup.pids() {
		if pid == p.pid {
			continue
		}
		if st, ok := readStat(pid); ok && !st.dead() {
			found = append(found, member{pid, st})
		}
	}
	return found
}

// Saw keeps the memory that the tree was seen to use, in bytes, where somebody else looked.
func (p *Process) Saw(rss int64) { p.raisePeak(rss) }

// Watch looks at the counter of kills for want of memory, so that a later kill can be dated. To be called now and then.
func (s *Spawner) Watch() { s.oom.look(time.Now()) }

// Peak is the highest memory seen, in bytes: what each process of the tree has had in memory at most, added up whenever
// the tree was sampled. Pages that processes share count in each of them. At the end it is at least what the leader
// has had, if that was more than what the manager has. 0 is unknown.
func (p *Process) Peak() int64 { return p.peak.Load() }

func (p *Process) raisePeak(to int64) {
	for {
		old := p.peak.Load()
		if to <= old || p.peak.CompareAndSwap(old, to) {
			return
		}
	}
}

// peakOf reads the peak from what is known of a process that has ended. A fork shares our memory up to the exec, so that
// a child begins with our own peak: only what is above that is its own.
func peakOf(usage unix.Rusage) int64 {
	var own unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &own) != nil || usage.Maxrss <= own.Maxrss {
		return 0
	}
	return usage.Maxrss << 10
}

// highWater reads VmHWM, the most that a process has had in memory, in bytes; 0 where it is gone.
func highWater(pid int) int64 {
	var buffer [2048]byte
	data, err := slurp("/proc/"+strconv.Itoa(pid)+"/status", buffer[:0])
	if err != nil {
		return 0
	}
	return kibibytes(data, "VmHWM:")
}

// kibibytes finds the line of that name in a file of lines like "VmHWM: 123 kB", and returns its number in bytes; 0 where there is none.
func kibibytes(data []byte, name string) int64 {
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if f := bytes.Fields(rest); ok && len(f) > 0 {
			return decimal(f[0]) << 10
		}
	}
	return 0
}

// descendants walks down from a process. What has left its parent is not in it.
func descendants(pid int) []member {
	var out []member
	todo := offspring(nil, pid)
	seen := map[int]bool{pid: true}
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		st, ok := readStat(pid)
		if !ok || seen[pid] || st.dead() {
			continue
		}
		seen[pid] = true
		out = append(out, member{pid, st})
		todo = offspring(todo, pid)
	}
	return out
}

// Entry is one living process of a tree.
type Entry struct {
	Pid   int
	PPid  int
	Name  string
	State string // one letter, as ps(1) shows it
	RSS   int64  // bytes in memory; pages that processes share count in each of them
	Tasks int    // itself and its threads
}

// Tree lists the living tree of a leader, which any process may have started: the leader, what descends from it, and what has
// left its parent but bears the number of the leader. A leader that is gone has no tree.
func Tree(pid int) []Entry {
	leader, ok := readStat(pid)
	if !ok || leader.dead() {
		return nil
	}
	found := append([]member{{pid, leader}}, descendants(pid)...)
	seen := map[int]bool{}
	for _, m := range found {
		seen[m.pid] = true
	}
	for _, m := range sameNumber(pid, leader) {
		for _, m := range append([]member{m}, descendants(m.pid)...) {
			if !seen[m.pid] {
				seen[m.pid] = true
				found = append(found, m)
			}
		}
	}
	out := make([]Entry, 0, len(found))
	buffer := make([]byte, 1024)
	for _, m := range found {
		r, _ := readRecord(m.pid, buffer)
		out = append(out, Entry{Pid: m.pid, PPid: m.stat.ppid, Name: m.stat.name, State: string(m.stat.state), RSS: r.rss, Tasks: int(r.tasks)})
	}
	return out
}

// sameNumber scans /proc for what bears the leader's number and is not older. Only numbers of 63 bits say enough.
func sameNumber(pid int, leader stat) []member {
	var out []member
	for _, l := range []limit{locksLimit, msgqueueLimit} {
		number, ok := l.of(pid)
		if !ok || number == unix.RLIM_INFINITY || number>>32 == 0 {
			continue
		}
		pids, err := allPids()
		if err != nil {
			return nil
		}
		for _, other := range pids {
			if n, ok := l.of(other); !ok || n != number {
				continue
			}
			if st, ok := readStat(other); ok && !st.dead() && st.start >= leader.start {
				out = append(out, member{other, st})
			}
		}
	}
	return out
}
