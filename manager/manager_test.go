package manager

import (
	"syscall"
	"testing"

	"crawlkeeper/control"
)

func TestKeepsCrawlersAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a", "b")
	r := w.start()
	pids := map[string]int{}
	for _, s := range w.reports(2) {
		pids[s.code] = s.pid
	}
	if got := w.phase("a", "running"); got.Pid != pids["a"] || got.Manager != "test" {
		t.Errorf("%+v, want pid %d", got, pids["a"])
	}
	if err := syscall.Kill(pids["a"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := w.reports(1)[0]
	if again.code != "a" {
		t.Errorf("started %s again", again.code)
	}
	reply := w.must(control.Command{Action: "restart", Sources: []string{"b"}})
	if s := w.reports(1)[0]; s.code != "b" || s.pid == pids["b"] || alive(pids["b"]) {
		t.Errorf("%+v after %+v", s, reply)
	}
	if err := r.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if alive(again.pid) {
		t.Error("a crawler is left")
	}
	if n := w.rdb.Exists(t.Context(), "crawler:status", "crawler:manager").Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
