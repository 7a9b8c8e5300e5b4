package limits

import (
	"context"
	"fmt"
	"maps"
	"time"

	"crawlkeeper/worker/process"
)

const (
	// window is how long output is counted before it counts anew.
	window = time.Minute
	// believed is how long the last exact figure of a tree's memory bounds the next one.
	believed = 30 * time.Second
	// exactly bounds how long one look may take to read exact figures; the trees that are left come with the next looks.
	exactly = 500 * time.Millisecond
)

// Watcher remembers what it has to from one look to the next. Its fields belong to who calls Look.
type Watcher struct {
	pss         func(pid int) int64
	descriptors func(pid, most int) int
	now         func() time.Time // of the bound above alone

	trees map[string]*past // by process
	sizer sizer
}

// past is what is remembered of a process.
type past struct {
	told bool

	exact   int64 // what its tree had in memory,
	rss     int64 // the plain sum then,
	exactAt time.Time

	since   time.Time // output is counted from here,
	printed uint64    // and was that much then
}

// NewWatcher makes a watcher of real processes.
func NewWatcher() *Watcher {
	return &Watcher{pss: process.PSS, descriptors: process.Descriptors, now: time.Now, trees: map[string]*past{}, sizer: newSizer()}
}

// Wait waits until nothing is done beside the looks any more.
func (w *Watcher) Wait() { w.sizer.wait() }

// Look lists the trees that are over a limit now, once each. A look every few seconds is enough. The census may be nil where
// no limit is Counted.
func (w *Watcher) Look(ctx context.Context, now time.Time, census Census, trees []Tree) []Breach {
	var found []Breach
	seen := make(map[string]bool, len(trees))
	w.sizer.look(ctx, now, trees)
	began := w.now()
	for _, t := range trees {
		seen[t.Process] = true
		m := w.trees[t.Process]
		if m == nil {
			m = &past{since: now, printed: t.Printed}
			w.trees[t.Process] = m
		}
		if m.told {
			continue
		}
		if limit, why := w.over(t, m, now, census, w.now().Sub(began) < exactly); limit != "" {
			m.told = true
			found = append(found, Breach{Source: t.Source, Process: t.Process, Limit: limit, Why: limit + ": " + why})
		}
	}
	maps.DeleteFunc(w.trees, func(id string, _ *past) bool { return !seen[id] })
	return found
}

// over names the first limit that a tree is over, and says how much.
func (w *Watcher) over(t Tree, m *past, now time.Time, census Census, exact bool) (limit, why string) {
	l := t.Limits
	var u process.Usage
	if l.Memory > 0 || l.Processes > 0 {
		u = census.Of(t.Pid)
	}
	if l.Processes > 0 && u.Tasks > l.Processes {
		return Processes, fmt.Sprintf("%d of %d%s", u.Tasks, l.Processes, mostOf(census.Members(t.Pid)))
	}
	if l.Memory > 0 && u.RSS > l.Memory && exact {
		if why := w.memory(t, m, u.RSS, now, census); why != "" {
			return Memory, why
		}
	}
	if l.OpenFiles > 0 {
		if why := w.files(t, census); why != "" {
			return OpenFiles, why
		}
	}
	if size := w.sizer.of(t.Process); l.TempSize > 0 && size.bytes > l.TempSize {
		return TempSize, fmt.Sprintf("%s of %s; the largest file is %s, %s", bytesOf(size.bytes), bytesOf(l.TempSize), shown(size.name), bytesOf(size.largest))
	}
	return m.output(t, now)
}

// memory says how much a tree has, where that is too much. What it has exactly is never more than the plain sum, and has grown
// by no more than that has, unless others let go of pages that it shared with them: hence the age.
func (w *Watcher) memory(t Tree, m *past, rss int64, now time.Time, census Census) string {
	if !m.exactAt.IsZero() && now.Sub(m.exactAt) < believed && m.exact+rss-m.rss <= t.Limits.Memory {
		return ""
	}
	var sum, most int64
	var culprit int
	for _, pid := range census.Pids(t.Pid) {
		n := w.pss(pid)
		sum += n
		if n > most {
			most, culprit = n, pid
		}
	}
	m.exact, m.rss, m.exactAt = sum, rss, now
	if sum <= t.Limits.Memory {
		return ""
	}
	return fmt.Sprintf("%s of %s; most of it %s %s", bytesOf(sum), bytesOf(t.Limits.Memory), nameOf(census.Members(t.Pid), culprit), bytesOf(most))
}

func (w *Watcher) files(t Tree, census Census) string {
	sum, most, culprit := 0, 0, 0
	for _, pid := range census.Pids(t.Pid) {
		n := w.descriptors(pid, t.Limits.OpenFiles)
		sum += n
		if n > most {
			most, culprit = n, pid
		}
	}
	if sum < t.Limits.OpenFiles {
		return ""
	}
	return fmt.Sprintf("%d of %d; most of them %s %d", sum, t.Limits.OpenFiles, nameOf(census.Members(t.Pid), culprit), most)
}

// output counts what is printed in a window, and needs not wait for its end: what follows cannot make it less. A look that
// comes late makes the window longer. What was printed before there was a limit does not count.
func (m *past) output(t Tree, now time.Time) (limit, why string) {
	if t.Limits.OutputRate == 0 {
		m.since, m.printed = now, t.Printed
		return "", ""
	}
	most := uint64(float64(t.Limits.OutputRate) * max(window, now.Sub(m.since)).Seconds())
	if n := t.Printed - m.printed; n > most {
		return OutputRate, fmt.Sprintf("%s in %s, of %s a second over a minute", bytesOf(int64(n)), max(now.Sub(m.since), time.Second).Round(time.Second), bytesOf(t.Limits.OutputRate))
	}
	if now.Sub(m.since) >= window {
		m.since, m.printed = now, t.Printed
	}
	return "", ""
}

func nameOf(members []process.Entry, pid int) string {
	for _, e := range members {
		if e.Pid == pid {
			return fmt.Sprintf("%s (pid %d)", shown(e.Name), pid)
		}
	}
	return fmt.Sprintf("pid %d", pid)
}

// mostOf names the program that has the most processes and threads.
func mostOf(members []process.Entry) string {
	tasks, name := map[string]int{}, ""
	for _, e := range members {
		tasks[e.Name] += e.Tasks
		if tasks[e.Name] > tasks[name] || tasks[e.Name] == tasks[name] && e.Name < name {
			name = e.Name
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; most of them %s, %d", shown(name), tasks[name])
}
