package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

// lockedBuffer takes what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// livingManager is `run` in this process.
type livingManager struct {
	environ []string
	hangups chan os.Signal
	stderr  *lockedBuffer
	file    string
	cancel  context.CancelFunc
	ended   chan struct{}
	status  int // of its exit, once ended is closed
}

// end stops it and returns its exit status.
func (m *livingManager) end() int {
	m.cancel()
	<-m.ended
	return m.status
}

func startManager(t *testing.T, sources ...string) *livingManager {
	t.Helper()
	pg := migratedDatabase(t)
	for _, code := range sources {
		pg.Exec(t, `INSERT INTO sources (code, collector, adapter, enabled, interval_seconds) VALUES ($1, 'news', 'standin', true, 3600)`, code)
	}
	file := filepath.Join(t.TempDir(), "crawlkeeper.yaml")
	m := &livingManager{
		environ: append(serversAt(testenv.Redis(t).URL(), pg.URL()), "CRAWLKEEPER_CONFIG="+file, "CRAWLKEEPER_MANAGER_STATUS_INTERVAL=100ms"),
		hangups: make(chan os.Signal), stderr: new(lockedBuffer), file: file, ended: make(chan struct{}),
	}
	m.configure(t, "-lines", "3")
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(m.ended)
		m.status = run(ctx, world{
			Args: []string{"run"}, Stdin: strings.NewReader(""), Stdout: m.stderr, Stderr: m.stderr, Environ: m.environ,
			Hangups: func() (<-chan os.Signal, func()) { return m.hangups, func() {} },
		})
	}()
	t.Cleanup(func() {
		m.end()
		if t.Failed() {
			t.Logf("the manager's log:\n%s", m.stderr)
		}
	})
	for _, code := range sources {
		m.until(t, code, "running")
	}
	return m
}

// configure writes the configuration, with these flags for the stand-in.
func (m *livingManager) configure(t *testing.T, flags ...string) {
	t.Helper()
	command, err := json.Marshal(append([]string{testenv.StandIn(t)}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("adapters:\n  standin: {command: %s, stop_timeout: 2s, pass_urls: true}\n", command)
	if err := os.WriteFile(m.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// source is the status of a source, by the command.
func (m *livingManager) source(t *testing.T, code string) status.Record {
	t.Helper()
	r := callWith(t.Context(), m.environ, "status", code, "--json")
	var got struct{ Sources []status.Record }
	if r.status != exitDone || json.Unmarshal([]byte(r.stdout), &got) != nil || len(got.Sources) != 1 {
		return status.Record{}
	}
	return got.Sources[0]
}

func (m *livingManager) until(t *testing.T, code, phase string) {
	t.Helper()
	testenv.Eventually(t, patience, code+" is "+phase, func() bool { return m.source(t, code).Phase == phase })
}

func TestRunAndTheCommandsAroundIt(t *testing.T) {
	t.Parallel()
	m := startManager(t, "a", "b")
	call(t, m.environ, "status").want(t, exitDone, "2 sources, 2 running", "")

	before := m.source(t, "a").Pid
	call(t, m.environ, "restart", "a").want(t, exitDone, "restarted: 1 of 1 source\n", "")
	testenv.Eventually(t, patience, "another process", func() bool { pid := m.source(t, "a").Pid; return pid != 0 && pid != before })
	call(t, m.environ, "restart", "a", "nobody").want(t, exitFailed, "", "nobody")

	call(t, m.environ, "pause", "--all", "--until", "2h", "--reason", "maintenance").want(t, exitDone, "paused: 2 of 2 sources\n", "")
	testenv.Eventually(t, patience, "the pause is seen", func() bool { return m.source(t, "b").PauseReason == "maintenance" })
	call(t, m.environ, "resume", "--all").want(t, exitDone, "resumed: 2 of 2 sources\n", "")

	call(t, m.environ, "stop", "b").want(t, exitDone, "stopped: 1 of 1 source\n", "")
	m.until(t, "b", "stopped")
	call(t, m.environ, "start", "b").want(t, exitDone, "started: 1 of 1 source\n", "")
	m.until(t, "b", "running")

	if code := m.end(); code != exitDone {
		t.Errorf("run ended with exit status %d", code)
	}
	call(t, m.environ, "status").want(t, exitNoManager, "0 sources", "")
}

func TestTickCommandFillsTheList(t *testing.T) {
	t.Parallel()
	m := startManager(t, "a")
	// The tick of its start is in the list: the stand-in takes none.
	testenv.Eventually(t, patience, "the first tick", func() bool { return m.source(t, "a").Trigger == "schedule" })
	call(t, m.environ, "tick", "a").want(t, exitDone, "ticked: 0 of 1 source, 1 had one waiting\n", "")
}

func TestOutputCommand(t *testing.T) {
	t.Parallel()
	m := startManager(t, "a")
	testenv.Eventually(t, patience, "three lines", func() bool {
		r := call(t, m.environ, "output", "a").want(t, exitDone, "", "")
		return strings.Count(r.stdout, "\n") == 3
	})
	r := call(t, m.environ, "output", "a", "--json").want(t, exitDone, `{"line":"`, "")
	if n := len(lines(r.stdout)); n != 3 {
		t.Errorf("%d lines", n)
	}
	call(t, m.environ, "output", "nobody").want(t, exitFailed, "", `there is no source "nobody"`)

	ctx, cancel := context.WithCancel(t.Context())
	followed, ended := new(lockedBuffer), make(chan int, 1)
	go func() {
		ended <- run(ctx, world{Args: []string{"output", "-f", "a"}, Stdout: followed, Stderr: followed, Environ: m.environ})
	}()
	testenv.Eventually(t, patience, "the old lines", func() bool { return strings.Count(followed.String(), "\n") == 3 })
	call(t, m.environ, "restart", "a").want(t, exitDone, "", "")
	testenv.Eventually(t, patience, "the lines of the next crawler", func() bool { return strings.Count(followed.String(), "\n") == 6 })
	cancel()
	if code := <-ended; code != exitDone {
		t.Errorf("exit status %d: %s", code, followed)
	}
}

func TestHangupReloads(t *testing.T) {
	t.Parallel()
	m := startManager(t, "a")
	before := m.source(t, "a").Pid
	m.configure(t, "-lines", "4")
	m.hangups <- os.Interrupt // any signal will do
	testenv.Eventually(t, patience, "a crawler of the new configuration", func() bool {
		pid := m.source(t, "a").Pid
		return pid != 0 && pid != before
	})
	if err := os.WriteFile(m.file, []byte("nonsense: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, m.environ[:4], "reload").want(t, exitFailed, "", "nonsense")
	if !strings.Contains(m.stderr.String(), "nonsense") {
		t.Errorf("the log does not say why:\n%s", m.stderr)
	}
}

func TestLogIsJSONOffTheTerminal(t *testing.T) {
	t.Parallel()
	m := startManager(t, "a")
	m.end()
	for _, line := range lines(m.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("line %q", line)
		}
	}
}

func TestCrawlFeedEndsWhenAsked(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	environ := append(serversAt(server.URL(), migratedDatabase(t).URL()), "CRAWLKEEPER_SOURCE=a")
	ctx, cancel := context.WithCancel(t.Context())
	ended, stderr := make(chan int, 1), new(lockedBuffer)
	go func() {
		ended <- run(ctx, world{Args: []string{"crawl-feed", "--url", "http://127.0.0.1:1/"}, Stdout: stderr, Stderr: stderr, Environ: environ})
	}()
	client := server.Client(t)
	testenv.Eventually(t, patience, "its heartbeat", func() bool {
		return client.Exists(t.Context(), "crawler:a:heartbeat").Val() == 1
	})
	cancel()
	if code := <-ended; code != exitDone {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}
