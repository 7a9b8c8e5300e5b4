package process_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

// long tells that the slow tests are wanted.
var long = os.Getenv("CRAWLKEEPER_TEST_LONG") != ""

func TestWaysAreChosenByWhatWorks(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	for _, c := range []struct {
		name  string
		under []string
		want  []process.Way
		why   bool
	}{
		{"an ordinary user", nil, []process.Way{process.ByLocks, process.ByKin}, false},
		{"with a small limit on locks", []string{"prlimit", "--locks=1000:1000"}, []process.Way{process.ByMsgqueue, process.ByKin}, true},
		{"with two small limits", []string{"prlimit", "--locks=1000:1000", "--msgqueue=1000:1000"}, []process.Way{process.ByKin}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := process.Spec{Argv: c.under}
			if os.Getuid() == 0 {
				spec.User = "nobody"
			}
			var got process.Ways
			must(t, json.Unmarshal([]byte(help(t, s, spec, "ways")), &got))
			use := got.Use
			if len(use) > 0 && use[0] == process.ByCgroup && spec.User == "" { // this user has a cgroup of its own
				use = use[1:]
			}
			if fmt.Sprint(use) != fmt.Sprint(c.want) || (got.Why != "") != c.why {
				t.Errorf("%v, %q, want %v", got, got.Why, c.want)
			}
			t.Log(got)
		})
	}
}

func TestForcedWayThatDoesNotWork(t *testing.T) {
	t.Parallel()
	if _, _, err := run(t.Name(), t.TempDir(), testenv.Logger(t), "magic"); err == nil {
		t.Error("a way that does not exist was taken")
	}
}

func TestAsPID1(t *testing.T) {
	t.Parallel()
	spec := process.Spec{Argv: []string{"unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"}}
	help(t, spawner(t), spec, "pid1")
}

func TestUnmarkedOrphans(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	if got := help(t, s, process.Spec{}, "unmarked"); !strings.HasPrefix(got, "lives: false") {
		t.Errorf("as an ordinary process: %s", got)
	}
	pid1 := process.Spec{Argv: []string{"unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"}}
	if got := help(t, s, pid1, "unmarked"); got != "lives: true unmarked: 1\n" {
		t.Errorf("as PID 1: %s", got)
	}
}

func TestRestartsHoldNothing(t *testing.T) {
	t.Parallel()
	n := 2000
	if long {
		n = 72000
	}
	help(t, spawner(t), process.Spec{}, "churn", strconv.Itoa(n))
}

func TestManyChildrenCostFewThreads(t *testing.T) {
	t.Parallel()
	n := 1000
	if long {
		n = 5000
	}
	help(t, spawner(t), process.Spec{Env: append(os.Environ(), "GOMAXPROCS=2")}, "many", strconv.Itoa(n))
}

func TestChromiumEndsWithItsCrawler(t *testing.T) {
	t.Parallel()
	chromium, err := process.Lookup(t.Context(), "chromium", "", os.Environ())
	if err != nil {
		t.Fatalf("%v (make setup installs it)", err)
	}
	s := spawner(t)
	for _, ways := range [][]string{nil, {"locks"}, {"locks", "kin"}, {"kin"}} {
		help(t, s, process.Spec{}, append([]string{"browser", chromium}, ways...)...)
	}
}

func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	if got := help(t, spawner(t), process.Spec{}, "crowded"); !strings.Contains(got, "out of file descriptors") {
		t.Errorf("%s", got)
	}
}

func TestOutOfMemoryIsSaidWhereTheCounterMoved(t *testing.T) {
	t.Parallel()
	place, limit := "", "memory.max"
	if base, err := process.OwnCgroup("memory"); err == nil {
		place, limit = filepath.Join(base, "test-"+uniqueID()), "memory.limit_in_bytes"
	} else if base, err := process.OwnCgroup(""); err == nil {
		place = filepath.Join(base, "test-"+uniqueID())
	}
	if place == "" || os.Mkdir(place, 0o755) != nil {
		t.Log("no memory cgroup can be made here")
		return
	}
	t.Cleanup(func() { _ = os.Remove(place) })
	if err := os.WriteFile(filepath.Join(place, limit), []byte("268435456"), 0); err != nil {
		t.Log("the memory controller is not here")
		return
	}
	spec := process.Spec{Argv: []string{"sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, place}}
	help(t, spawner(t), spec, "hungry", testenv.StandIn(t))
}

// A program that was started through the step dies with its manager, as any other.
func TestStepKeepsTheParentDeathSignal(t *testing.T) {
	t.Parallel()
	if !testenv.Root(t, "starts programs as other users") {
		return
	}
	s := spawner(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	manager := start(t, s, process.Spec{Argv: []string{executable(t), "doomed"}, Stdout: w})
	w.Close()
	var child int
	_, err = fmt.Fscan(r, &child)
	must(t, err)
	must(t, until("the program runs", func() bool { return strings.HasPrefix(cmdline(child), "sleep") }))
	must(t, manager.Signal(syscall.SIGKILL))
	<-manager.Exited()
	must(t, until("it dies with its manager", func() bool { return !lives(child) }))
}
