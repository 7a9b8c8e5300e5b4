package process

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a living tree uses.
type Usage struct {
	RSS   int64         // bytes in memory; pages that processes share count in each of them
	CPU   time.Duration // user and system time since the start, of children that were waited for too
	Tasks int           // processes and threads
}

// ticksPerSecond is USER_HZ, which is 100 on every architecture that Go runs on.
const ticksPerSecond = 100

// Census is what all processes use at one time: one pass over /proc serves every tree.
type Census struct {
	list  []record
	index map[int]int32 // in list, by pid
}

// record is one process in a Census, linked with those below it.
type record struct {
	pid, parent  int32
	below, after int32 // in list: its first child, and the next one of its parent; none is -1
	tasks        int32
	rss          int64
	cpu          time.Duration
}

const none = -1

// TakeCensus looks at every process once.
func TakeCensus() Census {
	pids, err := allPids()
	if err != nil {
		return Census{}
	}
	list := make([]record, 0, len(pids))
	buffer := make([]byte, 1024)
	for _, pid := range pids {
		if r, ok := readRecord(pid, buffer); ok {
			list = append(list, r)
		}
	}
	return newCensus(list)
}

func newCensus(list []record) Census {
	c := Census{list: list, index: make(map[int]int32, len(list))}
	for i := range list {
		list[i].below, list[i].after = none, none
		c.index[int(list[i].pid)] = int32(i)
	}
	for i := range list {
		c.put(int32(i), int(list[i].parent))
	}
	return c
}

// put hangs a process below another.
func (c Census) put(i int32, parent int) {
	if at, ok := c.index[parent]; ok && at != i {
		c.list[i].after, c.list[at].below = c.list[at].below, i
	}
}

// move hangs a process that hangs below one below another.
func (c Census) move(pid, to int) {
	i, ok := c.index[pid]
	if _, known := c.index[to]; !ok || !known || pid == to {
		return
	}
	if at, ok := c.index[int(c.list[i].parent)]; ok {
		link := &c.list[at].below
		for *link != none && *link != i {
			link = &c.list[*link].after
		}
		if *link == i {
			*link = c.list[i].after
		}
	}
	c.list[i].after, c.list[i].parent = none, int32(to)
	c.put(i, to)
}

// each calls visit with a process and what is below it. What was read while pids were used again may form a ring, hence the
// bound.
func (c Census) each(pid int, visit func(*record)) {
	root, ok := c.index[pid]
	if !ok {
		return
	}
	todo := []int32{root}
	for n := 0; len(todo) > 0 && n < len(c.list); n++ {
		r := &c.list[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		visit(r)
		for i := r.below; i != none; i = c.list[i].after {
			todo = append(todo, i)
		}
	}
}

// Of adds up a process and what is below it. What has left its parent is in it only where the Census is a Spawner's.
func (c Census) Of(pid int) Usage {
	var u Usage
	c.each(pid, func(r *record) {
		u.RSS += r.rss
		u.CPU += r.cpu
		u.Tasks += int(r.tasks)
	})
	return u
}

// Members lists a process and what is below it, with their names of now.
func (c Census) Members(pid int) []Entry {
	var out []Entry
	c.each(pid, func(r *record) {
		if st, ok := readStat(int(r.pid)); ok {
			out = append(out, Entry{Pid: int(r.pid), PPid: int(r.parent), Name: st.name, State: string(st.state), RSS: r.rss, Tasks: int(r.tasks)})
		}
	})
	return out
}

// Pids are a process and what is below it.
func (c Census) Pids(pid int) []int {
	var out []int
	c.each(pid, func(r *record) { out = append(out, int(r.pid)) })
	return out
}

// Census is TakeCensus, in which what has left its parent is below the leader of its tree.
func (s *Spawner) Census() Census {
	c := TakeCensus()
	self, ok := c.index[os.Getpid()]
	if !ok {
		return c
	}
	var orphans []int
	for i := c.list[self].below; i != none; i = c.list[i].after {
		if pid := int(c.list[i].pid); !living.isLeader(pid) {
			orphans = append(orphans, pid)
		}
	}
	for _, pid := range orphans {
		if st, ok := readStat(pid); ok {
			if t, _ := s.owner(pid, st); t != nil {
				c.move(pid, living.leaderOf(t)) // a leader that was just forked is its own
			}
		}
	}
	return c
}

var pageSize = int64(os.Getpagesize())

// readRecord reads fields 4 (parent), 14 to 17 (times), 20 (threads) and 24 (pages) of /proc/PID/stat, proc(5). It runs for
// every process of the machine every few seconds, so it allocates little.
func readRecord(pid int, buffer []byte) (record, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return record{}, false
	}
	n, err := unix.Read(fd, buffer)
	unix.Close(fd)
	if err != nil || n <= 0 {
		return record{}, false
	}
	return parseRecord(pid, buffer[:n])
}

func parseRecord(pid int, data []byte) (record, bool) {
	r := record{pid: int32(pid)}
	field, ticks := 2, int64(0)
	for f := range bytes.FieldsSeq(data[bytes.LastIndexByte(data, ')')+1:]) {
		field++
		switch field {
		case 4:
			r.parent = int32(decimal(f))
		case 14, 15, 16, 17:
			ticks += decimal(f)
		case 20:
			r.tasks = int32(max(1, decimal(f)))
		case 24:
			r.rss, r.cpu = decimal(f)*pageSize, time.Duration(ticks)*(time.Second/ticksPerSecond)
			return r, true
		}
	}
	return record{}, false
}

// decimal reads a number that the kernel wrote.
func decimal(text []byte) (n int64) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + int64(c-'0')
	}
	return n
}
