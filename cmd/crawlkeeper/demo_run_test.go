package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// demoPatience is for machines that do much else.
const demoPatience = 90 * time.Second

// demoProcess is a demo that a test runs as a process of its own, with a temporary folder of its own.
type demoProcess struct {
	*process.Process
	tmp            string
	stdout, stderr string // files
}

func startDemo(t *testing.T, args ...string) *demoProcess {
	t.Helper()
	program := testenv.Binary(t, "./cmd/crawlkeeper")
	// Not t.TempDir: the user of Postgres must be able to go through it.
	tmp, err := os.MkdirTemp("", "crawlkeeper-demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o711); err != nil {
		t.Fatal(err)
	}
	d := &demoProcess{tmp: tmp, stdout: filepath.Join(t.TempDir(), "stdout"), stderr: filepath.Join(t.TempDir(), "stderr")}
	spec := process.Spec{
		ID: t.Name(), Argv: append([]string{program, "demo"}, args...),
		Env:    []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp, "CRAWLKEEPER_REDIS_URL=redis://127.0.0.1:1"},
		Stdout: create(t, d.stdout), Stderr: create(t, d.stderr),
	}
	if d.Process, err = demoSpawner(t).Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), demoPatience)
		defer cancel()
		if _, err := d.Sweep(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("stderr of the demo:\n%s", read(d.stderr))
		}
	})
	return d
}

func demoSpawner(t *testing.T) *process.Spawner {
	t.Helper()
	s, err := process.New(process.Options{Name: t.Name(), Scope: t.TempDir(), Logger: testenv.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

func (d *demoProcess) waitForEnd(t *testing.T) process.Exit {
	t.Helper()
	select {
	case <-d.Exited():
	case <-time.After(demoPatience):
		t.Fatal("the demo did not end")
	}
	return d.Exit()
}

// processes are the living processes of the demo: all of them, and nobody else, work in its folder or have it in their environment
// or title, of which servers overwrite one or the other.
func (d *demoProcess) processes() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		work, _ := os.Readlink(dir + "/cwd")
		text := work + "\x00" + read(dir+"/environ") + read(dir+"/cmdline")
		if strings.Contains(text, d.tmp) {
			found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(read(dir+"/cmdline"), "\x00", " "))
		}
	}
	return found
}

func (d *demoProcess) leavesNoProcess(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, demoPatience, "that no process of the demo is left", func() bool { return len(d.processes()) == 0 })
}

func (d *demoProcess) leavesNoFile(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(d.tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("it left %s", e.Name())
	}
}

func TestDemoForAWhile(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--for", "8s", "--json")
	if exit := d.waitForEnd(t); exit.Code != 0 {
		t.Fatalf("it ended by %v", exit)
	}
	var f demoFigures
	if err := json.Unmarshal([]byte(read(d.stdout)), &f); err != nil {
		t.Fatalf("it printed %q: %v", read(d.stdout), err)
	}
	if f.Sources != 5 || f.Started != 5 || f.Leftover != 0 {
		t.Errorf("sources, started, leftover: %+v", f)
	}
	if f.Ticks == 0 || f.Items == 0 || f.Runs["succeeded"] == 0 {
		t.Errorf("nothing was crawled: %+v", f)
	}
	if f.Runs["interrupted"] == 0 || f.Runs["running"] != 0 || f.Restarts["signalled"] == 0 {
		t.Errorf("the killed crawler is missing: %+v", f)
	}
	if f.Restarts["restarted"] == 0 || f.RestartMS.P50 <= 0 {
		t.Errorf("the command is missing: %+v", f)
	}
	d.leavesNoProcess(t)
	d.leavesNoFile(t)
}

func TestDemoUntilCtrlC(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	line := regexp.MustCompile(`redis-cli -p (\d+) publish (\S+) '(.*)'\n`)
	var found []string
	testenv.Eventually(t, demoPatience, "the line to try", func() bool {
		found = line.FindStringSubmatch(read(d.stdout))
		return found != nil
	})
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + found[1]})
	defer client.Close()
	code := "harbour-news"
	startedAt := func() time.Time {
		records, err := status.Read(t.Context(), client, "crawler:status")
		if err != nil {
			t.Fatal(err)
		}
		return records[code].StartedAt
	}
	if !strings.Contains(found[3], fmt.Sprintf("%q", code)) {
		t.Fatalf("the line is about another source: %s", found[0])
	}
	before := startedAt()
	if n, err := client.Publish(t.Context(), found[2], found[3]).Result(); err != nil || n == 0 {
		t.Fatalf("%d took the command: %v", n, err)
	}
	testenv.Eventually(t, demoPatience, "a new process", func() bool { return startedAt().After(before) })

	if err := d.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if exit := d.waitForEnd(t); exit.Code != 0 {
		t.Errorf("it ended by %v", exit)
	}
	if !strings.Contains(read(d.stdout), "0 processes were left") {
		t.Errorf("it printed %q at the end", read(d.stdout))
	}
	d.leavesNoProcess(t)
	d.leavesNoFile(t)
}

func TestDemoThatIsKilledLeavesNoProcess(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	testenv.Eventually(t, demoPatience, "a demo that is up", func() bool { return strings.Contains(read(d.stdout), "redis-cli") })
	testenv.Eventually(t, demoPatience, "itself, two servers, the manager and five crawlers", func() bool { return len(d.processes()) >= 9 })
	if err := d.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.leavesNoProcess(t)
}

func TestDemoWithoutServersSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := demoBinaries()
	if err == nil || !strings.Contains(err.Error(), "install the package redis-server") {
		t.Errorf("it says: %v", err)
	}
}
