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
	var places []string
	for n := range 4 {
		process.Crowd(s)
		ready := filepath.Join(dir, fmt.Sprint(n))
		spec := process.Spec{Argv: []string{"sh", "-c", `touch "$0"; exec sleep 1000`, ready}}
		if n == 1 { // leaves something to be killed
			spec.Argv[2] = `sleep 1000 & touch "$0"; wait`
		}
		spec.ID, spec.Env = uniqueID(), os.Environ()
		p, err := s.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := until(ready+" is there", func() bool { _, err := os.Stat(ready); return err == nil }); err != nil {
			t.Fatal(err)
		}
		places = append(places, cgroupOf(t, p.Pid()))
		if err := p.Terminate(); err != nil {
			t.Fatal(err)
		}
		<-p.Exited()
		if exit := p.Exit(); exit.Signal.String() != "terminated" {
			t.Errorf("process %d, in %s, ended by %v", n, places[n], exit)
		}
		if err := sweep(p); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Contains(s.Ways().Use, process.ByCgroup) {
		t.Log("no cgroups can be made here")
		return
	}
	if places[0] != places[1] || places[1] == places[2] || places[2] != places[3] {
		t.Errorf("lived in %v", places)
	}
	stop()
	if left := process.OwnCgroups(s); len(left) > 0 {
		t.Errorf("left at the end: %v", left)
	}
}
