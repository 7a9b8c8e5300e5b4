package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

// asNobody begins a command line of an ordinary user without any capability, now or later.
var asNobody = []string{
	"setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all", "--no-new-privs",
}

// TestManagerWithoutAnyRight is a manager's life as an ordinary user, who has no capability: ticks, a restart, a crash, the end, and nothing
// of what a bad crawler leaves survives any of them.
func TestManagerWithoutAnyRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home, err := os.MkdirTemp("", "ordinary-") // not t.TempDir, which nobody else can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	w.conf, w.tmp = filepath.Join(home, "ck.yaml"), filepath.Join(home, "tmp")
	if err := os.Mkdir(w.tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	w.configure(adapter(t, "*", "stop_timeout: 1s, backoff: {min: 200ms, max: 1s, jitter: 0}",
		testenv.StandIn(t), "-ticks", "-runs", "-setsid", "-double-fork", "-stubborn", "1", "-disguise"))
	for path, mode := range map[string]os.FileMode{home: 0o755, w.conf: 0o644, w.tmp: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if testenv.Root(t, "becomes another user without a bounding set of capabilities; as it is, the manager is this one") {
		w.as = asNobody
	}
	w.source("a", "", "https://example.org/", time.Second)

	m := w.run("ordinary")
	rights, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000"}
	if w.as != nil {
		want = append(want, "Uid:\t65534\t65534\t65534\t65534", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1")
	}
	for _, line := range want {
		if !strings.Contains(string(rights), line) {
			t.Errorf("%q is missing in\n%s", line, rights)
		}
	}
	w.succeeded("a", time.Time{})

	first := w.running("a")
	w.publish(`{"action": "restart", "source": "a"}`)
	second := w.running("a", first.Pid)
	w.until("what the restarted crawler left was ended", `select exists (select from crawl_processes where pid = $1 and cause = 'restarted' and swept > 0)`, first.Pid)
	crashed := kill(t, second.Pid)
	third := w.running("a", first.Pid, second.Pid)
	w.until("what the killed one left, too", `select exists (select from crawl_processes where pid = $1 and signal = 'SIGKILL' and swept > 0)`, second.Pid)
	w.succeeded("a", crashed)
	m.stop() // looks for whatever is left
	if !w.holds(`select exists (select from crawl_processes where pid = $1 and cause = 'shutdown')`, third.Pid) {
		t.Error("the last crawler did not end by the shutdown")
	}
}
