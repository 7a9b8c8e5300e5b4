package process

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/internal/testenv"
)

// vacant makes a cgroup on a plain file system, as the keeper finds it when the last process has ended.
func vacant(t *testing.T, k *keeper) *tree {
	t.Helper()
	c := k.s.cgroups
	ok(t, os.MkdirAll(c.dir, 0o700))
	g, err := c.make()
	ok(t, err)
	g.forked()
	g.plain = true
	put(t, g, "cgroup.events", "populated 0\nfrozen 0\n")
	return &tree{cgroup: g}
}

func put(t *testing.T, g *cgroup, file, text string) {
	t.Helper()
	ok(t, os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o600))
}

func keeperOfMany(t *testing.T) *keeper {
	t.Helper()
	s := &Spawner{means: means{cgroups: cgroupsIn(t.TempDir(), 0xabc)}}
	s.live.Store(spareFrom)
	return newKeeper(s)
}

func TestACgroupThatIsAsItWasMadeIsForTheNextTree(t *testing.T) {
	t.Parallel()
	k := keeperOfMany(t)
	first := vacant(t, k)
	dir := first.cgroup.dir
	if !k.vacated(first) || first.cgroup != nil {
		t.Fatal("the tree still has its cgroup: its last kill would reach the next tree")
	}
	next, err := k.s.cgroups.make()
	ok(t, err)
	next.forked()
	if next.dir != dir {
		t.Errorf("%s was made, though %s waits", next.dir, dir)
	}
	other, err := k.s.cgroups.make()
	ok(t, err)
	other.forked()
	if other.dir == dir {
		t.Error("two trees have one cgroup")
	}
}

// The janitor ends what is in a cgroup that nobody has.
func TestACgroupThatWaitsOrIsUsedAgainIsNotLeftOver(t *testing.T) {
	t.Parallel()
	k := keeperOfMany(t)
	c := k.s.cgroups
	left := func(want ...string) {
		t.Helper()
		var got []string
		for _, l := range c.leftovers(map[uint32]bool{0xabc: true}) {
			got = append(got, l.Cgroup)
		}
		if !slices.Equal(got, want) {
			t.Errorf("left over: %v, want %v", got, want)
		}
	}
	left()
	first := vacant(t, k)
	g := first.cgroup
	left()
	k.vacated(first)
	left() // it waits
	again, err := c.make()
	ok(t, err)
	again.forked()
	left() // it is another tree's
	put(t, g, "x", "")
	if c.drop(again) {
		t.Error("it is gone, with a file in it")
	}
	left(g.dir)
}

// What a manager before us left, and the janitor has yet to remove, is passed over.
func TestACgroupGetsANameThatNoneHas(t *testing.T) {
	t.Parallel()
	c := keeperOfMany(t).s.cgroups
	for _, name := range []string{"1", "2"} {
		ok(t, os.MkdirAll(filepath.Join(c.dir, name), 0o700))
	}
	g, err := c.make()
	ok(t, err)
	g.forked()
	if filepath.Base(g.dir) != "3" || len(c.ours) != 1 {
		t.Errorf("made %s, ours: %v", g.dir, c.ours)
	}
}

// What is still lived in, or not as it was made, is nobody else's.
func TestACgroupThatIsNotAsItWasMadeIsNotForTheNextTree(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, k *keeper, g *cgroup)
		empty bool
	}{
		"something lives in it": {func(t *testing.T, _ *keeper, g *cgroup) { put(t, g, "cgroup.events", "populated 1\nfrozen 0\n") }, false},
		"frozen":                {func(t *testing.T, _ *keeper, g *cgroup) { put(t, g, "cgroup.events", "populated 0\nfrozen 1\n") }, true},
		"it cannot be read":     {func(t *testing.T, _ *keeper, g *cgroup) { ok(t, os.Remove(filepath.Join(g.dir, "cgroup.events"))) }, true},
		"something is below it": {func(t *testing.T, _ *keeper, g *cgroup) { ok(t, os.Mkdir(filepath.Join(g.dir, "x"), 0o700)) }, true},
		"it counts memory":      {func(t *testing.T, _ *keeper, g *cgroup) { put(t, g, "memory.events", "oom_kill 1\n") }, true},
		"it has limits":         {func(_ *testing.T, _ *keeper, g *cgroup) { g.plain = false }, true},
		"it was killed":         {func(_ *testing.T, _ *keeper, g *cgroup) { g.kill() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := keeperOfMany(t)
			tree := vacant(t, k)
			dir := tree.cgroup.dir
			c.spoil(t, k, tree.cgroup)
			if k.vacated(tree) != c.empty {
				t.Errorf("empty: %v", !c.empty)
			}
			if _, kept := k.s.cgroups.spares.take(struct{}{}); kept || exists(dir) && tree.cgroup == nil {
				t.Error("it waits for another tree, or for nobody")
			}
		})
	}
}

func TestFewTreesLeaveNoCgroups(t *testing.T) {
	t.Parallel()
	k := keeperOfMany(t)
	k.s.live.Store(spareFrom - 1)
	tree := vacant(t, k)
	dir := tree.cgroup.dir
	ok(t, os.Remove(filepath.Join(dir, "cgroup.events")))
	if !k.vacated(tree) || tree.cgroup != nil || exists(dir) || len(k.s.cgroups.ours) > 0 {
		t.Errorf("it is still there, or ours: %v", k.s.cgroups.ours)
	}
}

// A cgroup that waits and cannot be opened is not lost: it is removed, and another one is made.
func TestACgroupThatWaitsAndCannotBeOpened(t *testing.T) {
	t.Parallel()
	k := keeperOfMany(t)
	tree := vacant(t, k)
	dir := tree.cgroup.dir
	k.vacated(tree)
	ok(t, os.RemoveAll(dir))
	ok(t, os.WriteFile(dir, nil, 0o600)) // no directory any more
	g, err := k.s.cgroups.make()
	ok(t, err)
	g.forked()
	if g.dir == dir || g.again || len(k.s.cgroups.ours) != 1 {
		t.Errorf("got %+v, ours: %v", g, k.s.cgroups.ours)
	}
}

// A crawler may spoil its cgroup for the next one. That one runs without; only a new one that is refused says that none can be used.
func TestACgroupThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		k := keeperOfMany(t)
		s := k.s
		s.logger, s.forks, s.ended = testenv.Logger(t), make(chan *forkRequest), make(chan struct{})
		if again {
			k.vacated(vacant(t, k))
		}
		go func() { // the forking thread, in whose place the kernel refuses all cgroups
			for r := range s.forks {
				r.pid, r.err = os.Getpid(), nil
				if r.attr.Sys.UseCgroupFD {
					r.err = syscall.EOPNOTSUPP
				}
				close(r.done)
			}
		}()
		r := &forkRequest{attr: &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}}, tree: &tree{}}
		ok(t, s.inCgroup(t.Context(), r))
		close(s.forks)
		unix.Close(r.pidfd)
		if s.cgroups.failed.Load() == again || r.tree.cgroup != nil {
			t.Errorf("used before: %v; given up: %v, the tree's: %v", again, s.cgroups.failed.Load(), r.tree.cgroup)
		}
	}
}

// Where no more cgroups can be made each start would say so: it is said once a minute.
func TestThatNoCgroupCanBeMadeIsSaidOnce(t *testing.T) {
	t.Parallel()
	s := keeperOfMany(t).s
	var log bytes.Buffer
	s.logger, s.forks, s.ended = slog.New(slog.NewTextHandler(&log, nil)), make(chan *forkRequest), make(chan struct{})
	s.noCgroupLines.Interval = time.Hour // no time between two starts
	s.cgroups.makeDir = func(string) error { return syscall.EAGAIN }
	go func() { // the forking thread
		for r := range s.forks {
			r.pid, r.err = os.Getpid(), nil
			close(r.done)
		}
	}()
	defer close(s.forks)
	start := func(want int) {
		t.Helper()
		r := &forkRequest{attr: &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}}, tree: &tree{}}
		ok(t, s.inCgroup(t.Context(), r))
		unix.Close(r.pidfd)
		if got := strings.Count(log.String(), "a cgroup could not be made"); got != want {
			t.Errorf("said %d times, want %d", got, want)
		}
	}
	for range 100 {
		start(1)
	}
	s.noCgroupLines.Interval = time.Nanosecond // much later
	start(2)
}
