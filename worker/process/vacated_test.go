package process

import (
	"os"
	"path/filepath"
	"testing"
)

// vacant makes a cgroup on a plain file system, as the keeper finds it when the last process has ended.
func vacant(t *testing.T, k *keeper) *tree {
	t.Helper()
	c := k.s.cgroups
	ok(t, os.MkdirAll(c.dir, 0o700))
	g, err := c.make(uint64(k.s.serial.Add(1)))
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
	next, err := k.s.cgroups.make(uint64(k.s.serial.Add(1)))
	ok(t, err)
	next.forked()
	if next.dir != dir {
		t.Errorf("%s was made, though %s waits", next.dir, dir)
	}
	other, err := k.s.cgroups.make(uint64(k.s.serial.Add(1)))
	ok(t, err)
	other.forked()
	if other.dir == dir {
		t.Error("two trees have one cgroup")
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
		"the end":               {func(_ *testing.T, k *keeper, _ *cgroup) { k.s.cgroups.spares.close() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := keeperOfMany(t)
			tree := vacant(t, k)
			c.spoil(t, k, tree.cgroup)
			if k.vacated(tree) != c.empty {
				t.Errorf("empty: %v", !c.empty)
			}
			if _, kept := k.s.cgroups.spares.take(struct{}{}); kept || tree.cgroup == nil {
				t.Error("it waits for another tree")
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
	if !k.vacated(tree) || tree.cgroup != nil || exists(dir) {
		t.Error("it is still there")
	}
}
