package chaos

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// proc is a living process that some crawler's tree consists of.
type proc struct {
	pid    int
	start  uint64
	tree   uint64 // the number that all of a tree bear
	leader bool
	code   string // of a leader: its source
	id     string // of a leader: its process id
}

type incarnation struct {
	pid   int
	start uint64
}

// census reads /proc. One goroutine uses it.
type census struct {
	world    string          // what crawlers of this round have in their environment
	prefixes map[uint32]bool // of the managers of this round, learned from leaders
	known    map[incarnation]proc
	unmarked bool                   // crawlers of the old manager bear no number
	first    map[uint64]incarnation // the leader of each tree: a child between fork and exec looks just like it, but comes later
}

// take returns all living processes of this round's crawlers, zombies left out.
func (c *census) take() []proc {
	entries, _ := os.ReadDir("/proc")
	fresh := make(map[incarnation]proc)
	var out []proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var limit unix.Rlimit
		if unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit) != nil || limit.Cur == unix.RLIM_INFINITY && !c.unmarked {
			continue
		}
		start, state := statOf(pid)
		if start == 0 || state == 'Z' || state == 'X' {
			continue
		}
		key := incarnation{pid, start}
		p, seen := c.known[key]
		if !seen || !c.unmarked && p.tree != limit.Cur || p.id == "" {
			p = c.look(key, limit.Cur)
		}
		if p.leader {
			if _, known := c.first[p.tree]; !known {
				c.first[p.tree] = key // /proc lists them by pid
			}
			p.leader = c.first[p.tree] == key
		}
		fresh[key] = p
		if p.leader || c.prefixes[uint32(p.tree>>32)] {
			out = append(out, p)
		}
	}
	c.known = fresh
	return out
}

// look reads what does not change. A process between fork and exec shows its parent, which is no crawler.
func (c *census) look(key incarnation, tree uint64) proc {
	p := proc{pid: key.pid, start: key.start, tree: tree}
	environ, _ := os.ReadFile("/proc/" + strconv.Itoa(key.pid) + "/environ")
	if !bytes.Contains(environ, []byte("CHAOS_WORLD="+c.world+"\x00")) {
		return p
	}
	argv, _ := os.ReadFile("/proc/" + strconv.Itoa(key.pid) + "/cmdline")
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if v, ok := strings.CutPrefix(entry, "CRAWLKEEPER_SOURCE="); ok {
			p.code = v
		} else if v, ok := strings.CutPrefix(entry, "CRAWLKEEPER_PROCESS_ID="); ok {
			p.id = v
		}
	}
	if c.unmarked && p.id != "" {
		p.tree = treeOfID(p.id)
	}
	p.leader = p.id != "" && !bytes.Contains(argv, []byte("\x00-role\x00"))
	if p.id != "" {
		c.prefixes[uint32(p.tree>>32)] = true
	}
	return p
}

// statOf returns when a process was started, in clock ticks after boot, and its state; 0 where there is none.
func statOf(pid int) (start uint64, state byte) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const startField = 19
	if len(f) <= startField {
		return 0, 0
	}
	start, _ = strconv.ParseUint(string(f[startField]), 10, 64)
	return start, f[0][0]
}

// lives tells whether exactly this process is alive, and not stopped by a death that is only not noticed yet.
func (k incarnation) lives() bool {
	start, state := statOf(k.pid)
	return start == k.start && state != 'Z' && state != 'X'
}
