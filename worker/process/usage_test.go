package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

func TestRecordsAreReadWhateverTheName(t *testing.T) {
	t.Parallel()
	const rest = " S 7 1 1 0 -1 4194560 1 2 3 4 100 50 25 25 20 0 12 0 300 4096 11 18446744073709551615 1\n"
	want := record{pid: 9, parent: 7, tasks: 12, rss: 11 * pageSize, cpu: 2 * time.Second}
	for _, name := range []string{"sh", "a) S 1 2", "", "((", "x\ny z"} {
		if got, ok := parseRecord(9, []byte("9 ("+name+")"+rest)); !ok || got != want {
			t.Errorf("%q: %+v", name, got)
		}
	}
	for _, torn := range []string{"", "9 (sh) S 7 1 1", "no"} {
		if _, ok := parseRecord(9, []byte(torn)); ok {
			t.Errorf("%q is a record", torn)
		}
	}
}

func TestACensusAddsUpTrees(t *testing.T) {
	t.Parallel()
	one := func(pid, parent int32) record {
		return record{pid: pid, parent: parent, tasks: 1, rss: int64(pid), cpu: time.Second}
	}
	c := newCensus([]record{one(5, 2), one(1, 0), one(2, 1), one(3, 2), one(4, 1), one(8, 9), one(9, 8)})
	if got, want := c.Of(2), (Usage{RSS: 2 + 3 + 5, CPU: 3 * time.Second, Tasks: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	c.move(4, 2)
	c.move(2, 2)
	c.move(99, 2)
	c.move(3, 99)
	pids := c.Pids(2)
	slices.Sort(pids)
	if !slices.Equal(pids, []int{2, 3, 4, 5}) || c.Of(1).Tasks != 5 {
		t.Errorf("after a move %v, %+v", pids, c.Of(1))
	}
	if got := c.Of(8); got.Tasks < 2 { // a ring, as pids were used again meanwhile, has an end
		t.Errorf("%+v", got)
	}
	if got := c.Of(77); got != (Usage{}) {
		t.Errorf("nobody uses %+v", got)
	}
}

func TestTheCensusFindsWhatLeftItsParent(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	file := filepath.Join(t.TempDir(), "pids")
	p, err := s.Start(t.Context(), Spec{ID: "census", Argv: []string{testenv.StandIn(t), "-children", "1", "-double-fork"}, Env: append(os.Environ(), "STANDIN_PIDS="+file)})
	if err != nil {
		t.Fatal(err)
	}
	defer mustSweep(t, p)
	daemon := func() string { // the pid of the one whose parent has ended
		data, _ := os.ReadFile(file)
		for line := range strings.Lines(string(data)) {
			if pid, ok := strings.CutSuffix(line, " daemon\n"); ok {
				return pid
			}
		}
		return ""
	}
	var found []Entry
	testenv.Eventually(t, time.Minute, "leader, child and daemon, and what nobody waited for", func() bool {
		found = s.Census().Members(p.Pid())
		living := slices.DeleteFunc(slices.Clone(found), func(e Entry) bool { return e.State == "Z" || e.RSS == 0 })
		return len(living) == 3 && len(found) == 4 && slices.ContainsFunc(living, func(e Entry) bool { return strconv.Itoa(e.Pid) == daemon() })
	})
	u := s.Census().Of(p.Pid())
	if u.RSS < 300<<10 || u.Tasks < 4 {
		t.Errorf("%+v", u)
	}
	for _, m := range found {
		if m.State == "Z" {
			continue
		}
		if m.Name == "" || m.RSS == 0 || m.Tasks < 1 {
			t.Errorf("%+v", m)
		}
		if pss := PSS(m.Pid); pss <= 0 || pss > m.RSS+1<<20 {
			t.Errorf("pid %d has %d of its own and %d in memory", m.Pid, pss, m.RSS)
		}
		if n := Descriptors(m.Pid, 100); n < 3 || n > 20 {
			t.Errorf("pid %d has %d open files", m.Pid, n)
		}
	}
}

func BenchmarkCensus(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		TakeCensus()
	}
}
