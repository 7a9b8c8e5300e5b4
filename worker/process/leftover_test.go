package process_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/borrowed"
	"crawlkeeper/worker/process"
)

func TestLeftovers(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	if !s.Ways().Fingerprint {
		t.Log("nothing bears a number here")
		return
	}
	other := spawner(t)
	spec := process.Spec{ID: uniqueID(), Argv: []string{"sleep", "1000"}, Env: os.Environ()}
	lives, err := s.Start(context.Background(), spec)
	must(t, err)
	spec.ID = uniqueID()
	lost, err := other.Start(context.Background(), spec)
	must(t, err)
	for _, p := range []*process.Process{lives, lost} {
		t.Cleanup(func() { must(t, sweep(p)) })
	}
	before := time.Now()
	// A tree of ours that was lost: it bears a number of ours that no tree has.
	must(t, unix.Prlimit(lost.Pid(), unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: uint64(s.Prefix())<<32 | 5, Max: unix.RLIM_INFINITY}, nil))
	found := s.Leftovers()
	found = slices.DeleteFunc(found, func(l process.Leftover) bool { return l.Cgroup != "" })
	if len(found) != 1 || found[0].Pid != lost.Pid() || found[0].Name != "sleep" {
		t.Fatalf("%+v, want pid %d", found, lost.Pid())
	}
	if d := before.Sub(found[0].Since); d < -time.Second || d > time.Minute {
		t.Errorf("it is said to have been started at %s, not shortly before %s", found[0].Since, before)
	}
	must(t, s.RemoveLeftover(found[0]))
	<-lost.Exited()
	if len(s.Leftovers()) != 0 || lives.Pid() == 0 {
		t.Error("something is left over")
	}
	must(t, s.RemoveLeftover(found[0])) // its pid may be another's by now
}

func TestClaimsAndRoots(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	root := s.TempRoot()
	t.Cleanup(func() { os.RemoveAll(root) })
	spec := process.Spec{ID: uniqueID(), Argv: []string{"sh", "-c", `test -d "$TMPDIR" && sleep 1000`}, Env: os.Environ(), TempRoot: root, Track: &borrowed.Terms{Source: "a"}}
	p, err := s.Start(context.Background(), spec)
	must(t, err)
	place := borrowed.Place{Root: root, ID: spec.ID}
	terms, err := place.Terms()
	must(t, err)
	if !s.Claimed(spec.ID) || terms.Source != "a" || terms.Number != p.Fingerprint() || !slices.Contains(terms.Roots, place.Temp()) {
		t.Errorf("claimed: %v, terms %+v", s.Claimed(spec.ID), terms)
	}
	if err := process.OneOf(terms); err == nil {
		t.Error("this test is taken for one of the tree")
	}
	// Without a number it counts who descends from the manager: the parent stands for one here.
	start, _ := process.StartTime(os.Getppid())
	if err := process.OneOf(&borrowed.Terms{Parent: os.Getppid(), ParentStart: start}); err != nil {
		t.Error(err)
	}
	if err := process.OneOf(&borrowed.Terms{Parent: os.Getppid(), ParentStart: start + 1}); err == nil {
		t.Error("a pid alone is believed")
	}
	if roots := s.LostRoots(); !slices.Equal(roots, []string{root}) {
		t.Errorf("roots: %v", roots)
	}
	// What a manager of another boot, or another container, left has the same name but for the end.
	old := root[:strings.LastIndexByte(root, '-')] + "-00000001"
	must(t, os.Mkdir(old, 0o711))
	defer os.Remove(old)
	if roots := s.LostRoots(); len(roots) != 2 {
		t.Errorf("roots: %v", roots)
	}
	must(t, sweep(p))
	entries, err := os.ReadDir(root)
	if s.Claimed(spec.ID) || len(entries) != 0 || err != nil {
		t.Errorf("claimed: %v, left: %v, %v", s.Claimed(spec.ID), entries, err)
	}
	// A start that fails leaves nothing.
	spec.ID, spec.Argv = uniqueID(), []string{filepath.Join(t.TempDir(), "missing")}
	if _, err := s.Start(context.Background(), spec); err == nil {
		t.Error("a program that does not exist was started")
	}
	spec.ID, spec.Argv = uniqueID(), []string{testenv.StandIn(t)}
	must(t, os.WriteFile(filepath.Join(root, spec.ID+".borrowed"), nil, 0o600)) // it cannot be made
	if _, err := s.Start(context.Background(), spec); err == nil {
		t.Error("a process runs without its list")
	}
	if entries, _ := os.ReadDir(root); s.Claimed(spec.ID) || len(entries) != 0 {
		t.Errorf("claimed: %v, left: %v", s.Claimed(spec.ID), entries)
	}
}

// Of two managers of one name, neither takes what the other has for lost.
func TestALivingManagersRootIsNotLost(t *testing.T) {
	t.Parallel()
	scope := t.TempDir()
	first, stop, err := run(t.Name(), scope, testenv.Logger(t))
	must(t, err)
	defer stop()
	second, stopSecond, err := run(t.Name(), scope, testenv.Logger(t))
	must(t, err)
	for _, s := range []*process.Spawner{first, second} {
		must(t, os.Mkdir(s.TempRoot(), 0o711))
		defer os.Remove(s.TempRoot())
	}
	for _, s := range []*process.Spawner{first, second} {
		if roots := s.LostRoots(); !slices.Equal(roots, []string{s.TempRoot()}) {
			t.Errorf("roots: %v", roots)
		}
	}
	stopSecond()
	if roots := first.LostRoots(); len(roots) != 2 {
		t.Errorf("roots: %v", roots)
	}
}
