package manager

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// daemon is a manager as a process of its own.
type daemon struct {
	*process.Process
	t    *testing.T
	log  string
	addr string
}

// daemons starts managers of one world, which differ in their names and ports.
func (w *world) daemon(s *process.Spawner, name, addr string) *daemon {
	w.t.Helper()
	log, err := os.CreateTemp(w.t.TempDir(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	p, err := s.Start(context.Background(), process.Spec{
		ID: uuid.NewString(), Argv: []string{testenv.Binary(w.t, "./cmd/crawlkeeper"), "run", "--config", w.conf},
		Env:    append(os.Environ(), "CRAWLKEEPER_MANAGER_NAME="+name, "CRAWLKEEPER_HTTP_LISTEN="+addr),
		Stdout: log, Stderr: log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	d := &daemon{Process: p, t: w.t, log: log.Name(), addr: addr}
	w.t.Cleanup(func() {
		_ = p.Signal(syscall.SIGCONT)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := p.Sweep(ctx); err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() {
			text, _ := os.ReadFile(d.log)
			w.t.Logf("%s:\n%s", name, text)
		}
	})
	return d
}

func (w *world) spawner() *process.Spawner {
	w.t.Helper()
	s, err := process.New(process.Options{Name: w.t.Name(), Scope: w.t.TempDir(), Logger: testenv.Logger(w.t)})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = s.Run(ctx); close(done) }()
	w.t.Cleanup(func() { cancel(); <-done })
	return s
}

// holder waits until a manager is the active one.
func (w *world) holder(name string) {
	w.t.Helper()
	eventually(w.t, name+" is active", func() bool {
		h, ok, err := status.ReadHolder(context.Background(), w.rdb, "crawler:manager")
		return err == nil && ok && h.Name == name
	})
}

func ready(addr string) (int, string) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + addr + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	body := make([]byte, 1000)
	n, _ := r.Body.Read(body)
	return r.StatusCode, string(body[:n])
}

// ports picks addresses that are free now.
func ports(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		out = append(out, fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)))
	}
	return out
}

func TestTwoManagers(t *testing.T) {
	t.Parallel()
	codes := []string{"a", "b", "c"}
	for name, end := range map[string]struct {
		signal syscall.Signal
		exit   process.Exit
	}{
		"the first is asked to stop": {syscall.SIGTERM, process.Exit{}},
		"the first is killed":        {syscall.SIGKILL, process.Exit{Code: -1, Signal: syscall.SIGKILL}},
		"the first is suspended":     {syscall.SIGSTOP, process.Exit{Code: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, standin(t, "*", "-setsid", "-double-fork"))
			w.source(codes...)
			s := w.spawner()
			at := ports(t, 2)
			first := w.daemon(s, "first", at[0])
			w.holder("first")
			pids := w.reports(3)
			second := w.daemon(s, "second", at[1])
			eventually(t, "the second is a standby", func() bool {
				code, text := ready(at[1])
				return code == 503 && strings.Contains(text, "first")
			})
			w.none()
			firstPrefix := w.fingerprint()
			if err := first.Signal(end.signal); err != nil {
				t.Fatal(err)
			}
			w.holder("second")
			w.reports(3)
			for _, p := range pids {
				if alive(p.pid) {
					t.Errorf("%s: the first crawler lives beside the second", p.code)
				}
			}
			if left := testenv.Bearing(t, firstPrefix); len(left) != 0 {
				t.Errorf("left by the first: %v", left)
			}
			if end.signal == syscall.SIGSTOP {
				if err := first.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			if got := first.Exit(); got.Code != end.exit.Code || got.Signal != end.exit.Signal {
				t.Errorf("the first: %v, want %v", got, end.exit)
			}
			eventually(t, "the second is ready", func() bool { code, _ := ready(at[1]); return code == 200 })
			for _, code := range codes {
				eventually(t, code+" is kept by the second", func() bool { // the first one's hash may still be there
					r := w.records()[code]
					return r.Manager == "second" && r.Phase == "running"
				})
			}
			w.none() // the first has started nothing after it went on
			w.holder("second")
			if err := second.Terminate(); err != nil {
				t.Fatal(err)
			}
			if got := second.Exit(); got.Code != 0 {
				t.Errorf("the second: %v", got)
			}
		})
	}
}

// What a killed manager left is ended also where Redis forgot that manager before anybody else could read its key, by a
// standby of its own name or by a successor of another.
func TestASuccessorThatNeverSawTheHolder(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"first", "second"} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, standin(t, "*", "-setsid", "-double-fork"))
			w.source("a", "b")
			s := w.spawner()
			at := ports(t, 2)
			first := w.daemon(s, "first", at[0])
			w.holder("first")
			w.reports(2)
			prefix := w.fingerprint()
			w.redis.Stop(t)
			if err := first.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			first.Exit()
			if len(testenv.Bearing(t, prefix)) == 0 {
				t.Fatal("nothing is left, the test shows nothing")
			}
			second := w.daemon(s, next, at[1])
			if next == "first" { // without Redis it cannot become active
				eventually(t, "it ends what its predecessor left", func() bool { return len(testenv.Bearing(t, prefix)) == 0 })
			}
			w.redis.Start(t, false)
			w.holder(next)
			w.reports(2)
			if prefix != w.fingerprint() {
				if left := testenv.Bearing(t, prefix); len(left) != 0 {
					t.Errorf("left by the first: %v", left)
				}
			}
			if err := second.Terminate(); err != nil {
				t.Fatal(err)
			}
			if got := second.Exit(); got.Code != 0 {
				t.Errorf("the second: %v", got)
			}
		})
	}
}

// fingerprint of the active manager, as its key has it.
func (w *world) fingerprint() uint32 {
	h, _, _ := status.ReadHolder(context.Background(), w.rdb, "crawler:manager")
	return h.Fingerprint
}

func TestAnOldManagerThatRunsIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	ctx := t.Context()
	go func() { // as the old manager does
		for ctx.Err() == nil {
			w.rdb.HSet(ctx, "crawler:status", "a", `{"state": "running", "pid": 1, "started_at": null, "next_run_at": "2026-01-01T00:00:00+00:00"}`)
			w.rdb.Expire(ctx, "crawler:status", 10*time.Second)
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	eventually(t, "it runs", func() bool { return w.rdb.Exists(ctx, "crawler:status").Val() == 1 })
	w.rdb.HSet(ctx, "crawler:status", "witness", "{}") // what is written once is gone when the hash was deleted
	r := w.start()
	err := <-r.done
	r.done <- err
	if !w.rdb.HExists(ctx, "crawler:status", "witness").Val() {
		t.Error("the old manager's hash was deleted")
	}
	if err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("ended with %v", err)
	}
	w.none()
	if w.rdb.Exists(ctx, "crawler:manager").Val() != 0 {
		t.Error("its key is left")
	}
}

func TestADatabaseThatWasNotMigratedIsRefused(t *testing.T) {
	t.Parallel()
	w := worldOf(t, testenv.Postgres(t), testenv.Redis(t))
	r := w.start()
	err := <-r.done
	r.done <- err
	if err == nil || !strings.Contains(err.Error(), "crawlkeeper migrate") {
		t.Errorf("ended with %v", err)
	}
}
