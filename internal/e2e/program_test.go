package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

func newSpawner(t *testing.T) *process.Spawner {
	t.Helper()
	s, err := process.New(process.Options{Name: t.Name(), Scope: t.TempDir(), Logger: testenv.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = s.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// program is a process of the test, which ends with it.
type program struct {
	*process.Process
	t       *testing.T
	printed string // file with both of its streams
}

// shownAtFailure is how much of what a program printed is shown, in bytes.
const shownAtFailure = 256 << 10

func (w *world) start(dir string, env []string, argv ...string) *program {
	w.t.Helper()
	out, err := os.CreateTemp(w.t.TempDir(), "output")
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	p, err := w.spawner.Start(w.t.Context(), process.Spec{ID: uuid.NewString(), Argv: argv, Dir: dir, Env: env, Stdout: out, Stderr: out})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := p.Sweep(ctx); err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() {
			text, _ := os.ReadFile(out.Name())
			w.t.Logf("%s printed at last:\n%s", filepath.Base(argv[0]), text[max(0, len(text)-shownAtFailure):])
		}
	})
	return &program{Process: p, t: w.t, printed: out.Name()}
}

// terminate sends SIGTERM and returns how the program ended, and after how long.
func (p *program) terminate() (process.Exit, time.Duration) {
	p.t.Helper()
	asked := time.Now()
	if err := p.Terminate(); err != nil {
		p.t.Fatal(err)
	}
	exit := p.end()
	return exit, exit.At.Sub(asked)
}

// end waits for the end.
func (p *program) end() process.Exit {
	p.t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(patience):
		p.t.Fatalf("it did not end within %v", patience)
	}
	return p.Exit()
}

// call runs a program to its end and returns what it wrote to standard output. It must exit with 0.
func (w *world) call(env []string, argv ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	stdout, stderr, exit, err := process.Output(ctx, w.spawner, process.Spec{ID: uuid.NewString(), Argv: argv, Env: env})
	if err != nil || exit.Code != 0 {
		w.t.Fatalf("%s: %v, %v\n%s%s", strings.Join(argv, " "), exit, err, stdout, stderr)
	}
	return string(stdout)
}

// crawlkeeper calls the program as an operator does.
func (w *world) crawlkeeper(args ...string) string {
	w.t.Helper()
	return w.call(w.environ(), append([]string{crawlkeeper(w.t)}, args...)...)
}

// publish sends a command by redis-cli, as the documentation has it.
func (w *world) publish(command string) {
	w.t.Helper()
	if got := w.call(os.Environ(), w.redisCLI("publish", "crawler:control", command)...); got != "1\n" {
		w.t.Fatalf("%q managers have heard %s", got, command)
	}
}

func (w *world) redisCLI(args ...string) []string {
	return append([]string{"redis-cli", "-p", fmt.Sprint(w.redis.Port())}, args...)
}

// manager is `crawlkeeper run`.
type manager struct {
	*program
	w    *world
	mark uint32 // what all of its crawlers bear
}

// run starts a manager with the configuration of the world, and returns when it is the active one.
func (w *world) run(name string) *manager {
	w.t.Helper()
	return w.runIn(name, "", w.conf)
}

func (w *world) runIn(name, dir, conf string) *manager {
	w.t.Helper()
	return w.runAs(name, dir, conf, w.environ())
}

// runAs starts it with an environment of its own.
func (w *world) runAs(name, dir, conf string, env []string) *manager {
	w.t.Helper()
	m := &manager{w: w}
	m.program = w.start(dir, append(env,
		"CRAWLKEEPER_MANAGER_NAME="+name, "CRAWLKEEPER_HTTP_LISTEN=127.0.0.1:0", "CRAWLKEEPER_MANAGER_STATUS_INTERVAL=100ms",
		"TMPDIR="+w.tmp, "PYTHONDONTWRITEBYTECODE=1",
	), slices.Concat(w.as, []string{crawlkeeper(w.t), "run", "--config", conf})...)
	w.eventually(name+" is active", func() bool {
		select {
		case <-m.Exited():
			w.t.Fatalf("%s ended: %v", name, m.Exit())
		default:
		}
		h, ok, err := status.ReadHolder(w.t.Context(), w.rdb, "crawler:manager")
		m.mark = h.Fingerprint
		return err == nil && ok && h.Name == name
	})
	return m
}

// stop ends the manager as an operator does, and looks for what it has left: processes, keys and files.
func (m *manager) stop() {
	m.t.Helper()
	exit, took := m.terminate()
	if left := testenv.Bearing(m.t, m.mark); len(left) != 0 {
		m.t.Errorf("processes are left: %v", left)
	}
	if exit.Code != 0 {
		m.t.Errorf("the manager ended with %v", exit)
	}
	if n := m.w.rdb.Exists(m.t.Context(), "crawler:status", "crawler:manager").Val(); n != 0 {
		m.t.Errorf("%d of its keys are left", n)
	}
	if files, _ := filepath.Glob(m.w.tmp + "/*/*"); len(files) != 0 {
		m.t.Errorf("temporary files are left: %v", files)
	}
	m.t.Logf("figure: the manager ended %v after SIGTERM", took.Round(time.Millisecond))
}

// kill sends SIGKILL to a process that is not a child of this one, and says when.
func kill(t *testing.T, pid int) time.Time {
	t.Helper()
	at := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return at
}
