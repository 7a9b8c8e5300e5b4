package process_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

const longest = time.Minute // how long a test waits for what should be there at once

// uniqueID names a process, and files: pids are no help, as in namespaces of their own there are many with number 1.
func uniqueID() string { return "case-" + rand.Text() }

// run runs a Spawner until stop is called.
func run(name, scope string, logger *slog.Logger, ways ...process.Way) (s *process.Spawner, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	s, err = process.New(process.Options{Name: name, Scope: scope, Logger: logger, Ways: ways, Step: []string{self, "exec-step"}})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() { cancel(); <-done }, nil
}

// alone is run for helpers.
func alone(ways ...process.Way) (*process.Spawner, func(), error) {
	return run("helper", uniqueID(), slog.New(slog.NewTextHandler(os.Stderr, nil)), ways...)
}

func spawner(t *testing.T, ways ...process.Way) *process.Spawner {
	t.Helper()
	s, stop, err := run(t.Name(), t.TempDir(), testenv.Logger(t), ways...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

// start starts a program that is swept at the end of the test.
func start(t *testing.T, s *process.Spawner, spec process.Spec) *process.Process {
	t.Helper()
	if spec.ID == "" {
		spec.ID = uniqueID()
	}
	if spec.Env == nil {
		spec.Env = os.Environ()
	}
	p, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sweep(p); err != nil {
			t.Error(err)
		}
	})
	return p
}

func sweep(p *process.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	r, err := p.Sweep(ctx)
	if err != nil {
		return fmt.Errorf("sweep: %w, left %v", err, r.Left)
	}
	return nil
}

func output(t *testing.T, s *process.Spawner, spec process.Spec) string {
	t.Helper()
	if spec.ID == "" {
		spec.ID = uniqueID()
	}
	if spec.Env == nil {
		spec.Env = os.Environ()
	}
	limit := 3 * longest
	if long { // helpers do far more then
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, errs, exit, err := process.Output(ctx, s, spec)
	if err != nil || exit.Code != 0 {
		t.Fatalf("%v: %v, %v\n%s\n%s", spec.Argv, exit, err, out, errs)
	}
	t.Logf("%s%s", out, errs)
	return string(out)
}

// help runs this binary as one of the helpers, which must succeed.
func help(t *testing.T, s *process.Spawner, spec process.Spec, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if spec.User != "" {
		self = public(t, self)
	}
	spec.Argv = append(append(spec.Argv, self), args...)
	return output(t, s, spec)
}

// public copies a program to where every user can reach it.
func public(t *testing.T, file string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "crawlkeeper-public-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	to := filepath.Join(dir, filepath.Base(file))
	must(t, duplicate(file, to))
	return to
}

func duplicate(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until polls with a deadline.
func until(what string, ok func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(longest); !ok(); <-tick.C {
		if time.Now().After(end) {
			return errors.New("never: " + what)
		}
	}
	return nil
}

// proc is what /proc tells of a process, read apart from the package's own code.
type proc struct {
	pid, ppid int
	state     string
	exe, cwd  string
}

func procs() []proc {
	entries, _ := os.ReadDir("/proc")
	var out []proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := procOf(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

func procOf(pid int) (proc, bool) {
	base := "/proc/" + strconv.Itoa(pid)
	data, err := os.ReadFile(base + "/stat")
	if err != nil {
		return proc{}, false
	}
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	p := proc{pid: pid, state: f[0]}
	p.ppid, _ = strconv.Atoi(f[1])
	p.exe, _ = os.Readlink(base + "/exe")
	p.cwd, _ = os.Readlink(base + "/cwd")
	return p, true
}

func lives(pid int) bool {
	p, ok := procOf(pid)
	return ok && p.state != "Z" && p.state != "X"
}

// running lists the living processes of one program.
func running(exe string) []int {
	var pids []int
	for _, p := range procs() {
		if p.exe == exe && p.state != "Z" && p.state != "X" {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
