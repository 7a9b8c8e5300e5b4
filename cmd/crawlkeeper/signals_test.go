package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// The program's own main: the first SIGTERM asks crawlers to end, and one that does not gets stop_timeout; the second gives no
// more time.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	pg, server := migratedDatabase(t), testenv.Redis(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, adapter, enabled, interval_seconds) VALUES ('a', 'news', 'stubborn', true, 3600)`)
	dir := t.TempDir()
	file, log := filepath.Join(dir, "crawlkeeper.yaml"), filepath.Join(dir, "log")
	text := fmt.Sprintf("adapters:\n  stubborn: {command: [%q, -ignore-term], stop_timeout: 10m}\n", testenv.StandIn(t))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stderr := create(t, log)
	p, err := demoSpawner(t).Start(t.Context(), process.Spec{
		ID: t.Name(), Argv: []string{testenv.Binary(t, "./cmd/crawlkeeper"), "--config", file, "run"},
		Env: append(serversAt(server.URL(), pg.URL()), "TMPDIR="+dir, "CRAWLKEEPER_MANAGER_STATUS_INTERVAL=100ms"), Stdout: stderr, Stderr: stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := p.Sweep(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(read(log))
		}
	})
	client := server.Client(t)
	phase := func() status.Record {
		records, err := status.Read(t.Context(), client, "crawler:status")
		if err != nil {
			t.Fatal(err)
		}
		return records["a"]
	}
	testenv.Eventually(t, patience, "the crawler", func() bool { return phase().Phase == "running" })
	crawler := phase().Pid

	sendSignal(t, p, syscall.SIGTERM)
	testenv.Eventually(t, patience, "the end begins", func() bool { return phase().Phase == "stopping" })
	sendSignal(t, p, syscall.SIGTERM)
	select {
	case <-p.Exited():
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if exit := p.Exit(); exit.Code != exitDone {
		t.Errorf("it ended with %v", exit)
	}
	if err := syscall.Kill(crawler, 0); err == nil {
		t.Errorf("the crawler %d is still there", crawler)
	}
}

func sendSignal(t *testing.T, p *process.Process, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.Pid(), s); err != nil {
		t.Fatal(err)
	}
}
