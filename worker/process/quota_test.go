package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// kernel stands in for the one that makes the files of cgroup v2, on a plain file system, with its rules: a controller has
// files below where it was handed on, and who holds processes hands nothing on.
type kernel struct{ t *testing.T }

// fakeCgroups has a cgroup in which we live, beside others perhaps.
func fakeCgroups(t *testing.T, offered string, others ...string) *cgroups {
	t.Helper()
	k := &kernel{t: t}
	base := filepath.Join(t.TempDir(), "ours")
	c := cgroupsIn(base, 0xabc)
	c.makeDir, c.write = k.mkdir, k.write
	if err := k.mkdir(base); err != nil {
		t.Fatal(err)
	}
	k.put(filepath.Join(base, "cgroup.controllers"), offered)
	k.put(filepath.Join(base, "cgroup.procs"), strings.Join(append(others, strconv.Itoa(os.Getpid())), "\n"))
	return c
}

func (k *kernel) put(file, text string) {
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		k.t.Error(err)
	}
}

func (k *kernel) get(file string) []string {
	data, _ := os.ReadFile(file)
	return strings.Fields(string(data))
}

var filesOf = map[string][]string{
	"cpu": {"cpu.max"}, "cpuset": {"cpuset.cpus"}, "memory": {"memory.max", "memory.oom.group", "memory.swap.max", "memory.events"}, "pids": {"pids.max"},
}

func (k *kernel) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	given := k.get(filepath.Join(dir, "..", "cgroup.subtree_control"))
	for name, text := range map[string]string{"type": "domain", "procs": "", "kill": "", "events": "populated 0", "subtree_control": "", "controllers": strings.Join(given, " ")} {
		k.put(filepath.Join(dir, "cgroup."+name), text)
	}
	for _, controller := range given {
		for _, file := range filesOf[controller] {
			k.put(filepath.Join(dir, file), "max")
		}
	}
	return nil
}

func (k *kernel) write(file, text string) error {
	if _, err := os.Stat(file); err != nil {
		return err
	}
	dir := filepath.Dir(file)
	switch filepath.Base(file) {
	case "cgroup.subtree_control":
		name := strings.TrimPrefix(text, "+")
		if !slices.Contains(k.get(filepath.Join(dir, "cgroup.controllers")), name) {
			return syscall.ENOENT
		}
		if len(k.get(filepath.Join(dir, "cgroup.procs"))) > 0 {
			return syscall.EBUSY
		}
		text = strings.Join(append(k.get(file), name), " ")
		below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.controllers"))
		for _, file := range below {
			k.put(file, text)
		}
	case "cgroup.procs":
		k.put(filepath.Join(dir, "..", "cgroup.procs"), "")
	}
	k.put(file, text)
	return nil
}

func TestLimitsAreWrittenIntoTheCgroup(t *testing.T) {
	t.Parallel()
	c := fakeCgroups(t, "cpuset cpu io memory pids")
	if on, why := c.prospects(); len(on) != 4 || why != "" {
		t.Errorf("prospects %v, %s", on, why)
	}
	if _, err := os.Stat(c.dir); err == nil {
		t.Error("who only asked for prospects has made a directory")
	}
	if ok, why := c.holds("memory"); !ok { // with it we move out of the way of the controllers
		t.Fatal(why)
	}
	g, err := c.make()
	if err != nil {
		t.Fatal(err)
	}
	defer g.forked()
	if left, err := c.hold(g, Quota{Memory: 512 << 20, CPU: 0.5, Tasks: 20}, []int{0, 3}); left != nil || err != nil {
		t.Fatal(left, err)
	}
	for file, want := range map[string]string{
		"memory.max": "536870912", "memory.oom.group": "1", "memory.swap.max": "0", "pids.max": "21", "cpu.max": "50000 100000", "cpuset.cpus": "0,3",
	} {
		if got, _ := os.ReadFile(filepath.Join(g.dir, file)); strings.TrimSpace(string(got)) != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(c.dir+"-manager", "cgroup.procs")); strings.TrimSpace(string(got)) != strconv.Itoa(os.Getpid()) {
		t.Errorf("we live in a cgroup that hands controllers on: %q", got)
	}
}

func TestATreeWithoutLimitsWritesNothing(t *testing.T) {
	t.Parallel()
	c := fakeCgroups(t, "cpuset cpu memory pids")
	g, err := c.make()
	if err != nil {
		t.Fatal(err)
	}
	defer g.forked()
	if left, err := c.hold(g, Quota{}, nil); left != nil || err != nil {
		t.Error(left, err)
	}
	if _, err := os.Stat(c.dir + "-manager"); !errors.Is(err, fs.ErrNotExist) || len(c.words(c.base, "cgroup.subtree_control")) > 0 {
		t.Error("controllers were switched on for nobody")
	}
}

func TestWhatCannotBeHeldIsSaid(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, offered string
		others        []string
		left, err     string // parts of what is said
	}{
		{"no controllers", "", nil, "no controllers are delegated", "no controllers are delegated"},
		{"no memory and no share", "pids cpuset", nil, "no controller cpu, memory", "no controller cpu"},
		{"others live there", "cpuset cpu memory pids", []string{"1"}, "other processes live in it", "other processes live in it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := fakeCgroups(t, test.offered, test.others...)
			_, said := c.prospects()
			g, err := c.make()
			if err != nil {
				t.Fatal(err)
			}
			defer g.forked()
			left, err := c.hold(g, Quota{Memory: 1 << 20, CPU: 1, Tasks: 1}, nil)
			if left == nil || err == nil || !strings.Contains(left.Error(), test.left) || !strings.Contains(err.Error(), test.err) || !strings.Contains(said, test.err) {
				t.Errorf("left %v, error %v, prospects %q", left, err, said)
			}
			s := &Spawner{means: means{cgroups: c}}
			if why := s.refuse(Quota{CPU: 1}); !strings.Contains(why, test.err) || !strings.Contains(why, "limits.cpu") {
				t.Errorf("refused with %q", why)
			}
			if why := s.refuse(Quota{Memory: 1, Tasks: 1}); why != "" {
				t.Errorf("what can be watched is refused: %s", why)
			}
		})
	}
}

func TestAFullCgroupIsToldFromAFullMachine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"max 3\noom 1\noom_kill 1\n": true, "max 0\noom 0\noom_kill 1\n": false, "": false} {
		g := &cgroup{dir: t.TempDir()}
		(&kernel{t: t}).put(filepath.Join(g.dir, "memory.events"), text)
		if got := g.ranOut(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestAShareOfTheProcessorNeedsACgroup(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	if s.cgroups != nil {
		if ok, _ := s.cgroups.holds("cpu"); ok {
			t.Log("this machine can hold it")
			return
		}
	}
	_, err := s.Start(context.Background(), Spec{ID: "share", Argv: []string{"true"}, Env: os.Environ(), Quota: Quota{CPU: 0.5}})
	if e, ok := errors.AsType[*StartError](err); !ok || e.Program != "true" || !strings.Contains(e.Reason, "needs a cgroup v2") {
		t.Errorf("%v", err)
	}
}

// What is asked for reaches the program and all that it starts; the next one has what the manager has.
func TestProcessorsAreInherited(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	const show = "grep Cpus_allowed_list: /proc/self/status"
	allowed := func(cpus []int) string {
		out, _, exit, err := Output(t.Context(), s, Spec{ID: "cpus", Argv: []string{"sh", "-c", show}, Env: os.Environ(), CPUs: cpus})
		if err != nil || exit.Code != 0 {
			t.Fatal(err, exit)
		}
		return strings.TrimSpace(strings.TrimPrefix(string(out), "Cpus_allowed_list:"))
	}
	all := allowed(nil)
	first, _, _ := strings.Cut(strings.NewReplacer("-", ",").Replace(all), ",")
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if got := allowed([]int{n}); got != first {
		t.Errorf("the program may use %s, want %s", got, first)
	}
	if got := allowed(nil); got != all {
		t.Errorf("the next one may use %s, want %s", got, all)
	}
	_, err = s.Start(t.Context(), Spec{ID: "none", Argv: []string{"true"}, Env: os.Environ(), CPUs: []int{1023}})
	if e, ok := errors.AsType[*StartError](err); !ok || !strings.Contains(e.Reason, "none of the processors 1023") {
		t.Errorf("%v", err)
	}
}
