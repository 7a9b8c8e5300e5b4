package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

// cgroupOf is where a process lives in cgroup v2.
func cgroupOf(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// Where many processes live a cgroup is used again, if only those lived in it that ended by themselves: the kernel may kill what is
// forked into one in which something was killed.
func TestProcessesLiveInCgroupsThatAreUsedAgain(t *testing.T) {
	t.Parallel()
	s, stop, err := run(t.Name(), t.TempDir(), testenv.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(stop)
	t.Cleanup(stop)
	dir := t.TempDir()
	n := 0
	place := func(script string) string { // where a process lived that was asked to end
		t.Helper()
		process.Crowd(s)
		n++
		ready := filepath.Join(dir, fmt.Sprint(n))
		p, err := s.Start(t.Context(), process.Spec{ID: uniqueID(), Argv: []string{"sh", "-c", script, ready}, Env: os.Environ()})
		must(t, err)
		must(t, until(ready+" is there", func() bool { _, err := os.Stat(ready); return err == nil }))
		place := cgroupOf(t, p.Pid())
		must(t, p.Terminate())
		<-p.Exited()
		if exit := p.Exit(); exit.Signal.String() != "terminated" {
			t.Errorf("process %d, in %s, ended by %v", n, place, exit)
		}
		must(t, sweep(p))
		return place
	}
	const plain, leaves = `touch "$0"; exec sleep 1000`, `sleep 1000 & touch "$0"; wait`
	if !slices.Contains(s.Ways().Use, process.ByCgroup) {
		t.Log("no cgroups can be made here")
		place(plain)
		return
	}
	// On a busy machine the kernel says a moment too late that nothing lives in one, and it is removed instead.
	again, last := false, place(plain)
	for n < 50 && !again {
		next := place(plain)
		again, last = next == last, next
	}
	if !again {
		t.Errorf("none of %d was used again", n)
	}
	killed := place(leaves)
	if next := place(plain); next == killed {
		t.Errorf("something was killed in %s, which is used again", killed)
	}
	stop()
	if left := process.OwnCgroups(s); len(left) > 0 {
		t.Errorf("left at the end: %v", left)
	}
}
