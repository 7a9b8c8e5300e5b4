package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

// In a container the manager is PID 1: every orphan becomes its child, and nobody else reaps.
func TestAsPID1(t *testing.T) {
	t.Parallel()
	if !testenv.Root(t, "makes a namespace of pids") {
		return
	}
	w := newWorld(t, standin(t, "*", "-double-fork", "-children", "2"))
	w.source("a", "b")
	s := w.spawner()
	p, err := s.Start(context.Background(), process.Spec{
		ID:   uuid.NewString(),
		Argv: []string{"unshare", "--pid", "--fork", "--mount-proc", testenv.Binary(t, "./cmd/crawlkeeper"), "run", "--config", w.conf},
		Env:  append(os.Environ(), "CRAWLKEEPER_MANAGER_NAME=first"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := p.Sweep(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.holder("first")
	w.reports(2)
	if r := w.phase("a", "running"); r.Pid == 0 || r.Pid > 1000 {
		t.Errorf("pid %d is not one of a namespace of its own", r.Pid)
	}
	init := childOf(t, p.Pid())
	inside := func() (names []string) {
		for _, pid := range namespaceOf(t, init) {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil {
				names = append(names, string(stat))
			}
		}
		return names
	}
	eventually(t, "no orphan is left as a zombie", func() bool {
		return !strings.Contains(strings.Join(inside(), ""), fmt.Sprintf(") Z %d ", init))
	})
	// A stranger whose parent ends, as docker exec leaves some: it is reaped, and not ended.
	for range 20 {
		_, _, exit, err := process.Output(t.Context(), s, process.Spec{
			ID:   uuid.NewString(),
			Argv: []string{"nsenter", "--pid", "--target", strconv.Itoa(init), "sh", "-c", "(setsid sleep 0.05 &); exit 3"},
			Env:  os.Environ(),
		})
		if err != nil || exit.Code != 3 {
			t.Fatalf("%v %v", exit, err)
		}
	}
	eventually(t, "the strangers are reaped", func() bool {
		return !strings.Contains(strings.Join(inside(), ""), "(sleep)")
	})
	if err := syscall.Kill(init, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit(); got.Code != 0 {
		t.Errorf("ended with %v", got)
	}
	if n := testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where status='exited' and cause='shutdown'`); n != 2 {
		t.Errorf("%d rows of a shutdown", n)
	}
}

func childOf(t *testing.T, pid int) int {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if n, e := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && e == nil {
			return n
		}
	}
	t.Fatalf("pid %d has no child", pid)
	return 0
}

// namespaceOf lists the processes in the pid namespace of a process.
func namespaceOf(t *testing.T, pid int) []int {
	t.Helper()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", n)); err == nil && ns == want {
			out = append(out, n)
		}
	}
	return out
}
