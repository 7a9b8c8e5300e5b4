package limits

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"crawlkeeper/worker/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a census that somebody made up: trees of processes that descend from nobody but the leader.
type world struct {
	members map[int][]process.Entry // by leader
	pss     map[int]int64
	files   map[int]int
	exact   int // how often pss was asked
}

func (w *world) Of(pid int) (u process.Usage) {
	for _, e := range w.members[pid] {
		u.RSS += e.RSS
		u.Tasks += e.Tasks
	}
	return u
}

func (w *world) Pids(pid int) (pids []int) {
	for _, e := range w.members[pid] {
		pids = append(pids, e.Pid)
	}
	return pids
}

func (w *world) Members(pid int) []process.Entry { return w.members[pid] }

func (w *world) watcher() *Watcher {
	watcher := NewWatcher()
	watcher.pss = func(pid int) int64 { w.exact++; return w.pss[pid] }
	watcher.descriptors = func(pid, most int) int { return min(w.files[pid], most) }
	return watcher
}

func newWorld() *world {
	return &world{
		members: map[int][]process.Entry{10: {{Pid: 10, Name: "python", RSS: 100, Tasks: 1}, {Pid: 11, Name: "chromium", RSS: 500, Tasks: 3}}},
		pss:     map[int]int64{10: 60, 11: 440}, files: map[int]int{10: 5, 11: 15},
	}
}

const id = "01980000-0000-7000-8000-000000000001"

func treeOf(l Limits) Tree {
	return Tree{Source: "alpha", Process: id, Pid: 10, Started: time.Now(), Limits: l}
}

func look(t *testing.T, w *Watcher, c *world, trees ...Tree) []Breach {
	t.Helper()
	return w.Look(t.Context(), time.Now(), c, trees)
}

func TestLimitsAtTheirBoundary(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limits Limits
		why    string // empty: it is within
	}{
		{Limits{}, ""},
		{Limits{Memory: 500}, ""},
		{Limits{Memory: 499}, "memory: 500 bytes of 499 bytes; most of it chromium (pid 11) 440 bytes"},
		{Limits{Processes: 4}, ""},
		{Limits{Processes: 3}, "processes: 4 of 3; most of them chromium, 3"},
		{Limits{OpenFiles: 21}, ""},
		{Limits{OpenFiles: 20}, "open_files: 20 of 20; most of them chromium (pid 11) 15"},
		{Limits{Memory: 1, Processes: 1, OpenFiles: 1}, "processes: 4 of 1; most of them chromium, 3"},
	} {
		t.Run(fmt.Sprint(test.limits), func(t *testing.T) {
			t.Parallel()
			c := newWorld()
			found := look(t, c.watcher(), c, treeOf(test.limits))
			switch {
			case test.why == "" && len(found) == 0:
			case len(found) != 1 || found[0].Why != test.why || found[0].Source != "alpha" || found[0].Process != id || !strings.HasPrefix(test.why, found[0].Limit):
				t.Errorf("%+v, want %q", found, test.why)
			}
		})
	}
}

func TestEachIsToldOnceAndAnewForItsNextProcess(t *testing.T) {
	t.Parallel()
	c := newWorld()
	w := c.watcher()
	tree := treeOf(Limits{Processes: 1})
	other := tree
	other.Pid, other.Process, other.Source = 20, "other", "beta" // within its limits
	if n := len(look(t, w, c, tree, other)); n != 1 {
		t.Fatalf("%d", n)
	}
	if found := look(t, w, c, tree, other); len(found) != 0 {
		t.Errorf("told again: %v", found)
	}
	tree.Process = "next"
	if n := len(look(t, w, c, tree)); n != 1 || len(w.trees) != 1 {
		t.Errorf("%d told, %d remembered", n, len(w.trees))
	}
}

// The exact figure costs: it is read where the plain sum is over the limit, and again only when it may have got there.
func TestExactMemoryIsReadOnlyWhereItMatters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newWorld()
		w := c.watcher()
		tree := treeOf(Limits{Memory: 600})
		reads := func(want int) {
			t.Helper()
			if found := look(t, w, c, tree); len(found) != 0 || c.exact != want {
				t.Fatalf("%v, %d figures read, want %d", found, c.exact, want)
			}
		}
		reads(0) // 600 in all is not over
		c.members[10][1].RSS = 550
		reads(2) // 500 of 650 are its own
		c.members[10][1].RSS = 650
		reads(2) // 600 at most now
		c.members[10][1].RSS = 651
		reads(4) // 601 at most
		time.Sleep(believed - time.Nanosecond)
		reads(4)
		time.Sleep(time.Nanosecond)
		reads(6) // others may have let go of what it shared with them
		c.pss[11] = 541
		time.Sleep(believed)
		if found := look(t, w, c, tree); len(found) != 1 || !found[0].Urgent() {
			t.Errorf("%v", found)
		}
	})
}

func TestALookReadsExactFiguresForABoundedTime(t *testing.T) {
	t.Parallel()
	c := newWorld()
	w := c.watcher()
	began := time.Now()
	now := began
	w.now = func() time.Time { now = now.Add(exactly); return now } // each figure takes as long as all may
	if found := look(t, w, c, treeOf(Limits{Memory: 1, OpenFiles: 20})); len(found) != 1 || found[0].Limit != OpenFiles || c.exact != 0 {
		t.Errorf("%v, %d figures read", found, c.exact)
	}
}

func TestOutputOverAMinute(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		printed []uint64 // in all, at each look, 5 s apart
		at      int      // of the look that tells; -1 is none
	}{
		"exactly the rate":          {[]uint64{1000, 1100, 1200, 7000, 7000, 7000, 7000, 7000, 7000, 7000, 7000, 7000, 7000, 13000}, -1},
		"one byte more":             {[]uint64{1000, 7000, 7001}, 2},
		"what was printed before":   {[]uint64{1 << 40, 1<<40 + 1}, -1},
		"a new minute counts anew":  {[]uint64{0, 5900, 5900, 5900, 5900, 5900, 5900, 5900, 5900, 5900, 5900, 5900, 5900, 5901, 11900}, -1},
		"and tells in the next one": {[]uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6000, 6001}, 14},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld().watcher()
				tree := treeOf(Limits{OutputRate: 100})
				for i, n := range test.printed {
					tree.Printed = n
					found := w.Look(t.Context(), time.Now(), nil, []Tree{tree})
					if told := len(found) > 0; told != (i == test.at) {
						t.Fatalf("look %d: %v", i, found)
					}
					time.Sleep(5 * time.Second)
				}
			})
		})
	}
}

// A limit that a reload adds, and a look that comes late, find nobody guilty who keeps to the rate.
func TestOutputCountsFromTheLimitOnAndOverTheTimeThatPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().watcher()
		tree := treeOf(Limits{TempSize: 1 << 40})
		pass := func(d time.Duration, rate uint64) {
			t.Helper()
			time.Sleep(d)
			tree.Printed += rate * uint64(d/time.Second)
			if found := w.Look(t.Context(), time.Now(), nil, []Tree{tree}); len(found) > 0 {
				t.Fatal(found)
			}
		}
		pass(time.Second, 1000)
		pass(time.Hour, 1000)
		tree.Limits.OutputRate = 100
		pass(5*time.Second, 100)
		for range 20 {
			pass(8*time.Second, 100)
		}
		pass(10*time.Minute, 100)
		time.Sleep(5 * time.Second)
		tree.Printed += 6001
		if found := w.Look(t.Context(), time.Now(), nil, []Tree{tree}); len(found) != 1 {
			t.Errorf("%v", found)
		}
		w.Wait()
	})
}

func TestAge(t *testing.T) {
	t.Parallel()
	const age = 24 * time.Hour
	began := time.Now()
	at := func(after time.Duration, trees ...Tree) []Breach { return Aged(began.Add(after), trees) }
	one := Tree{Source: "alpha", Process: id, Started: began, Limits: Limits{MaxAge: age}}
	due := dueAge(id, age)
	if due < age || due >= age+age/spread {
		t.Fatalf("due at %v", due)
	}
	if found := at(due-time.Nanosecond, one); len(found) != 0 {
		t.Errorf("too early: %v", found)
	}
	if found := at(due, one); len(found) != 1 || found[0].Overdue || found[0].Limit != MaxAge || found[0].Urgent() {
		t.Errorf("%+v", found)
	}
	if found := at(due+longestGrace-time.Nanosecond, one); len(found) != 1 || found[0].Overdue {
		t.Errorf("%+v", found)
	}
	young := one
	young.Started, young.Source = began.Add(longestGrace), "beta"
	if found := at(due+longestGrace, young, one); len(found) != 2 || !found[0].Overdue || found[0].Source != "alpha" || found[1].Overdue {
		t.Errorf("%+v", found)
	}
	if found := at(1000*age, Tree{Process: id, Started: began}); len(found) != 0 {
		t.Errorf("no limit, and yet %v", found)
	}
	early, late := 0, 0
	for i := range 1000 {
		switch d := dueAge(fmt.Sprintf("%s-%d", id, i), age); {
		case d < age+age/spread/2:
			early++
		default:
			late++
		}
	}
	if early < 300 || late < 300 {
		t.Errorf("a fleet that was started together ends together: %d early, %d late", early, late)
	}
}

// The longest duration is what somebody writes who means never. What is added to it must not make a negative age, which every
// crawler has reached.
func TestTheLongestAgeIsNever(t *testing.T) {
	t.Parallel()
	const (
		longest = time.Duration(math.MaxInt64)
		fits    = longest / (spread + 1) * spread // with all that may be added it is still a duration
	)
	began := time.Now()
	for i := range 1000 {
		tree := Tree{Process: fmt.Sprintf("%s-%d", id, i), Started: began}
		for _, tree.Limits.MaxAge = range []time.Duration{fits, fits + time.Hour, longest - time.Hour, longest} {
			if due := dueAge(tree.Process, tree.Limits.MaxAge); due < tree.Limits.MaxAge {
				t.Fatalf("%s of %d ns is due at %d ns", tree.Process, tree.Limits.MaxAge, due)
			}
			if found := Aged(began.Add(time.Hour), []Tree{tree}); len(found) != 0 {
				t.Fatalf("after an hour: %+v", found)
			}
		}
		if found := Aged(began.Add(longest), []Tree{tree}); len(found) != 0 && found[0].Overdue {
			t.Fatalf("it is given no grace: %+v", found)
		}
	}
}

func TestFiguresAndNamesForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 812 << 20: "812 MiB", 1536 << 20: "1.5 GiB", 9 << 20: "9 MiB", 12 << 30: "12 GiB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for name, want := range map[string]string{"chrome": "chrome", "a\nb\x00\xff": "a?b??", "Ärger": "Ärger", strings.Repeat("x", 81): strings.Repeat("x", 80) + "…"} {
		if got := shown(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}
