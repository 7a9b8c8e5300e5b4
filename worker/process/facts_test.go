package process_test

import (
	"path/filepath"
	"slices"
	"testing"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

func TestTreeShowsWhatLeftItsParent(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	pids := filepath.Join(t.TempDir(), "pids")
	p := start(t, s, process.Spec{Argv: []string{testenv.StandIn(t), "-children", "1", "-double-fork"}, Env: []string{"STANDIN_PIDS=" + pids}})
	must(t, until("leader, child and daemon", func() bool {
		tree := process.Tree(p.Pid())
		return len(tree) == 3 && !slices.ContainsFunc(tree, func(e process.Entry) bool { return e.State == "R" || e.RSS == 0 })
	}))
	for i, e := range process.Tree(p.Pid()) {
		if (i == 0) != (e.Pid == p.Pid()) || e.Name == "" || e.State == "" || e.RSS < 100<<10 {
			t.Errorf("%d: %+v", i, e)
		}
	}
	if err := sweep(p); err != nil {
		t.Error(err)
	}
	if left := process.Tree(p.Pid()); left != nil {
		t.Errorf("left %v", left)
	}
}

func TestPeakIsKept(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	p := start(t, s, process.Spec{Argv: []string{testenv.StandIn(t), "-allocate", "60"}})
	must(t, until("memory is seen", func() bool { p.Sample(); return p.Peak() > 60<<20 }))
	must(t, p.Terminate())
	<-p.Exited()
	if got := p.Peak(); got < 60<<20 || got > 400<<20 {
		t.Errorf("peak %d", got)
	}
}

func TestPeakIsThatOfTheWholeTree(t *testing.T) {
	t.Parallel()
	for _, ways := range [][]process.Way{nil, {process.ByKin}} { // in a cgroup, where there are such, and without
		s := spawner(t, ways...)
		p := start(t, s, process.Spec{Argv: []string{"sh", "-c", `"$0" -allocate 60 & wait`, testenv.StandIn(t)}})
		must(t, until("the memory of a child is seen", func() bool { p.Sample(); return p.Peak() > 60<<20 }))
	}
}
