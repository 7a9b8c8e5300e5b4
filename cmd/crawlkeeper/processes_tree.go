package main

import (
	"fmt"
	"os"
	"strings"

	"crawlkeeper/sql"
	"crawlkeeper/worker/process"
)

// living is the tree of a process as it is now, from /proc.
type living struct {
	sql.Process
	entries []process.Entry
	unseen  string // why it cannot be looked at from here
}

// look finds the living trees of processes that have not ended. A pid means something only on its own host, boot and
// pid namespace; the start time tells whether it is still the same process.
func look(list []sql.Process) []living {
	host, _ := os.Hostname()
	var out []living
	for _, p := range list {
		if p.Status != sql.ProcessRunning {
			continue
		}
		l := living{Process: p}
		start, alive := process.StartTime(p.Pid)
		switch {
		case p.Host != host || p.BootID != process.BootID():
			l.unseen = "it runs on " + p.Host
		case !alive || start != p.StartTime:
			l.unseen = "it is gone, or in another container"
		default:
			l.entries = process.Tree(p.Pid)
		}
		out = append(out, l)
	}
	return out
}

// printTrees draws each tree, children below their parents. What has left its parent stands below the leader.
func (a *app) printTrees(list []living) error {
	t := newTable("PROCESS", ">PID", "STATE", ">MEMORY", "")
	for _, l := range list {
		if l.unseen != "" {
			t.add(l.Source, pid(l.Pid), none, none, l.unseen)
			continue
		}
		byParent := map[int][]process.Entry{}
		known := map[int]bool{}
		for _, e := range l.entries {
			known[e.Pid] = true
		}
		for _, e := range l.entries {
			parent := e.PPid
			if e.Pid != l.Pid && !known[parent] {
				parent = l.Pid
			}
			byParent[parent] = append(byParent[parent], e)
		}
		var draw func(e process.Entry, depth int)
		draw = func(e process.Entry, depth int) {
			name, note := strings.Repeat("  ", depth)+e.Name, ""
			if depth == 0 {
				name = fmt.Sprintf("%s (%s)", l.Source, e.Name)
			} else if !known[e.PPid] {
				note = "has left its parent"
			}
			t.add(name, pid(e.Pid), e.State, memory(e.RSS), note)
			for _, child := range byParent[e.Pid] {
				draw(child, depth+1)
			}
		}
		for _, e := range l.entries {
			if e.Pid == l.Pid {
				draw(e, 0)
			}
		}
	}
	return a.printTable(t)
}

type treeJSON struct {
	processJSON
	Tree   []entryJSON `json:"tree"`
	Unseen string      `json:"unseen,omitempty"` // why the tree cannot be looked at from here
}

type entryJSON struct {
	Pid      int    `json:"pid"`
	Parent   int    `json:"parent"`
	Name     string `json:"name"`
	State    string `json:"state"`
	RSSBytes int64  `json:"rss_bytes"`
}

func treesToJSON(list []living) []treeJSON {
	out := make([]treeJSON, len(list))
	for i, l := range list {
		out[i] = treeJSON{processJSON: processToJSON(l.Process), Tree: []entryJSON{}, Unseen: l.unseen}
		for _, e := range l.entries {
			out[i].Tree = append(out[i].Tree, entryJSON{e.Pid, e.PPid, e.Name, e.State, e.RSS})
		}
	}
	return out
}
