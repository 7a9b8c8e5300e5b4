package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// spawner runs a Spawner until the test ends.
func spawner(t *testing.T, prepare ...func(*Spawner)) *Spawner {
	t.Helper()
	s, err := New(Options{Name: t.Name(), Scope: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range prepare {
		f(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

var ids struct {
	sync.Mutex
	n int
}

// sh starts a shell script. "$OUT" in it is a file in the test's directory.
func sh(t *testing.T, s *Spawner, script string) (*Process, string) {
	t.Helper()
	ids.Lock()
	ids.n++
	id := fmt.Sprintf("test-%d-%d", os.Getpid(), ids.n)
	ids.Unlock()
	out := filepath.Join(t.TempDir(), "out")
	p, err := s.Start(t.Context(), Spec{
		ID: id, Argv: []string{"sh", "-c", script}, TempRoot: t.TempDir(),
		Env: []string{"PATH=" + os.Getenv("PATH"), "OUT=" + out},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustSweep(t, p) })
	return p, out
}

func mustSweep(t *testing.T, p *Process) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	r, err := p.Sweep(ctx)
	if err != nil {
		t.Fatalf("sweep: %v, left %v", err, r.Left)
	}
	return r
}

// pidsIn waits until the script has written n pids, one a line.
func pidsIn(t *testing.T, file string, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, "pids in "+file, func() bool {
		data, _ := os.ReadFile(file)
		pids = pids[:0]
		for f := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) >= n && strings.HasSuffix(string(data), "\n")
	})
	return pids
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(60 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func alive(pid int) bool { _, ok := StartTime(pid); return ok }

func TestExit(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	for script, want := range map[string]Exit{
		"exit 0":     {Code: 0},
		"exit 7":     {Code: 7},
		"kill -9 $$": {Code: -1, Signal: syscall.SIGKILL},
	} {
		p, _ := sh(t, s, script)
		got := p.Exit()
		if got.Code != want.Code || got.Signal != want.Signal {
			t.Errorf("%s: %v, want %v", script, got, want)
		}
		if r := mustSweep(t, p); len(r.Swept) != 0 {
			t.Errorf("%s: swept %v", script, r.Swept)
		}
	}
}

// Whoever asks to be told of the exit is told once, before it, beside it or after it.
func TestOnExit(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	for _, script := range []string{"exit 0", "read line", "sleep 1000"} {
		p, _ := sh(t, s, script)
		if script == "exit 0" {
			<-p.Exited()
		}
		told := make(chan struct{}, 9)
		p.OnExit(func() {
			<-p.Exited() // closed by now, or this never ends
			told <- struct{}{}
		})
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		<-told
		mustSweep(t, p)
		if len(told) > 0 {
			t.Errorf("%s: told twice", script)
		}
	}
}

func TestTerminateReachesAStoppedLeaderAlone(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	p, out := sh(t, s, `trap 'exit 5' TERM; (trap "" TERM; exec sleep 1000) & echo $! >$OUT; kill -STOP $$; while :; do sleep 0.01; done`)
	child := pidsIn(t, out, 1)[0]
	eventually(t, "the leader is stopped", func() bool { st, _ := readStat(p.Pid()); return st.state == 'T' })
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit(); got.Code != 5 {
		t.Errorf("exit %v, want 5", got)
	}
	if !alive(child) {
		t.Error("the child got the signal too")
	}
	if r := mustSweep(t, p); len(r.Swept) == 0 {
		t.Error("the child was not swept")
	}
	if alive(child) {
		t.Error("the child lives on")
	}
}

func TestSweepFindsWhatLeft(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a child that ignores TERM":   `(trap "" TERM HUP; exec sleep 1000) & echo $! >$OUT`,
		"another session":             `setsid sleep 1000 & echo $! >$OUT`,
		"a double fork":               `(setsid sh -c 'sleep 1000 & echo $! >>$OUT' &); while ! [ -s $OUT ]; do sleep 0.01; done`,
		"no environment":              `env -i setsid sleep 1000 & echo $! >$OUT`,
		"a daemon without any parent": `(env -i OUT=$OUT setsid sh -c 'cd /; (exec sleep 1000 </dev/null >/dev/null 2>&1) & echo $! >>$OUT'); while ! [ -s $OUT ]; do sleep 0.01; done`,
	} {
		for how, end := range map[string]string{"exit 0": "; exit 0", "crash": "; kill -SEGV $$"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				s := spawner(t)
				p, out := sh(t, s, script+end)
				<-p.Exited()
				child := pidsIn(t, out, 1)[0]
				if r := mustSweep(t, p); len(r.Swept) == 0 {
					t.Error("nothing was swept")
				}
				if alive(child) {
					t.Errorf("pid %d lives on", child)
				}
			})
		}
	}
}

// Kernels that do not list children: all processes are looked through instead, and no leader is taken for an orphan.
func TestSweepByScanning(t *testing.T) {
	t.Parallel()
	s := spawner(t, func(s *Spawner) { s.ways.Children = false })
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			p, out := sh(t, s, `setsid sleep 1000 & echo $! >$OUT; exit 3`)
			if got := p.Exit(); got.Code != 3 {
				t.Errorf("exit %v: its status was lost", got)
			}
			child := pidsIn(t, out, 1)[0]
			mustSweep(t, p)
			if alive(child) {
				t.Errorf("pid %d lives on", child)
			}
		})
	}
	all.Wait()
}

func TestSweepOutrunsAForkStorm(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	// Each generation leaves its session and forks the next before it ends.
	p, out := sh(t, s, `cat >$OUT.sh <<'S'
echo $$ >>$OUT
setsid sh $OUT.sh $(($1+1)) &
sleep 0.001
S
sh $OUT.sh 0 & sh $OUT.sh 0 & sleep 0.3; kill -9 $$`)
	<-p.Exited()
	mustSweep(t, p)
	data, _ := os.ReadFile(out)
	for f := range strings.FieldsSeq(string(data)) {
		if pid, _ := strconv.Atoi(f); alive(pid) {
			if number, _ := locksLimit.of(pid); number == p.Fingerprint() {
				t.Errorf("pid %d lives on", pid)
			}
		}
	}
}

func TestOrphansOfLivingCrawlersAreReaped(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	p, out := sh(t, s, `for i in 1 2 3 4 5; do (sh -c 'echo $$ >>$OUT' &); done; exec sleep 1000`)
	for _, pid := range pidsIn(t, out, 5) {
		eventually(t, "the orphan is gone", func() bool { _, ok := readStat(pid); return !ok })
	}
	if !alive(p.Pid()) {
		t.Error("the leader is gone too")
	}
}

func TestSweepLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	s, other := spawner(t), spawner(t)
	stays, out := sh(t, s, `setsid sleep 1000 & echo $! >$OUT; exec sleep 1000`)
	foreign, _ := sh(t, other, `exec sleep 1000`)
	child := pidsIn(t, out, 1)[0]
	p, _ := sh(t, s, `setsid sleep 1000 & exit 0`)
	mustSweep(t, p)
	for _, pid := range []int{stays.Pid(), child, foreign.Pid()} {
		if !alive(pid) {
			t.Errorf("pid %d was ended", pid)
		}
	}
}

func TestFailedStart(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	dir := t.TempDir()
	notExecutable := filepath.Join(dir, "plain")
	script := filepath.Join(dir, "script")
	must(t, os.WriteFile(notExecutable, []byte("x"), 0o600))
	must(t, os.WriteFile(script, []byte("#!"+dir+"/no-such-interpreter\n"), 0o700))
	for _, c := range []struct {
		name string
		spec Spec
		want error
	}{
		{"no such program", Spec{Argv: []string{"no-such-program-anywhere"}}, syscall.ENOENT},
		{"no such file", Spec{Argv: []string{dir + "/missing"}}, syscall.ENOENT},
		{"not executable", Spec{Argv: []string{notExecutable}}, syscall.EACCES},
		{"no interpreter", Spec{Argv: []string{script}}, syscall.ENOENT},
		{"no directory", Spec{Argv: []string{"sh"}, Dir: dir + "/missing"}, syscall.ENOENT},
		{"a file as directory", Spec{Argv: []string{"sh"}, Dir: notExecutable}, syscall.ENOTDIR},
		{"nothing", Spec{}, syscall.ENOENT},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			c.spec.ID, c.spec.TempRoot, c.spec.Env = "failed", root, []string{"PATH=/usr/bin:/bin"}
			_, err := s.Start(t.Context(), c.spec)
			var start *StartError
			if !errors.As(err, &start) || !errors.Is(err, c.want) {
				t.Fatalf("%v, want a StartError with %v", err, c.want)
			}
			if left, _ := os.ReadDir(root); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestTemporaryDirectoryGoesWithTheProcess(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	p, out := sh(t, s, `mkdir -p $TMPDIR/a/b; echo x >$TMPDIR/a/b/c; echo $TMPDIR >$OUT`)
	<-p.Exited()
	data, err := os.ReadFile(out)
	must(t, err)
	dir := strings.TrimSpace(string(data))
	if _, err := os.Stat(dir + "/a/b/c"); err != nil {
		t.Fatal(err)
	}
	mustSweep(t, p)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", dir)
	}
}

func TestSweepEndsALeaderThatLives(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	p, out := sh(t, s, `trap "" TERM; echo $$ >$OUT; while :; do sleep 0.01; done`)
	pidsIn(t, out, 1)
	must(t, p.Terminate())
	mustSweep(t, p)
	if got := p.Exit(); got.Signal != syscall.SIGKILL {
		t.Errorf("exit %v", got)
	}
	must(t, p.Signal(syscall.SIGTERM)) // a process that is gone is no error
}

func TestLostTreesAreFoundByTheirPrefix(t *testing.T) {
	t.Parallel()
	scope := t.TempDir()
	first, err := New(Options{Name: t.Name(), Scope: scope, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = first.Run(ctx) })
	p, out := sh(t, first, `env -i setsid sleep 1000 & echo $! >$OUT; exec sleep 1000`)
	child := pidsIn(t, out, 1)[0]

	second, err := New(Options{Name: t.Name(), Scope: scope, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	if second.Prefix() == first.Prefix() {
		t.Fatal("two living managers share a prefix")
	}
	if r := second.SweepLost(t.Context()); len(r.Swept) != 0 || !alive(child) {
		t.Fatalf("swept %v of a manager that lives", r.Swept)
	}
	cancel() // the manager ends without a sweep, as one that is killed
	running.Wait()
	eventually(t, "the leader dies with its manager", func() bool { return !alive(p.Pid()) })
	if !alive(child) {
		t.Fatal("the child should have survived")
	}
	if r := second.SweepLost(t.Context()); len(r.Swept) != 1 || r.Swept[0].Pid != child {
		t.Errorf("swept %v, want pid %d", r.Swept, child)
	}
	eventually(t, "the child is gone", func() bool { return !alive(child) })
	unlock(second.slot.lock, true)
	second.null.Close()
}

func TestTheLastReignIsKnownToAllNamesOfAScope(t *testing.T) {
	t.Parallel()
	scope := t.TempDir()
	one, other := &Spawner{slot: &slot{scope: scope, reign: reignName(scope), prefix: 1}}, &Spawner{slot: &slot{name: "other", scope: scope, reign: reignName(scope), prefix: 1<<31 - 1}}
	want := func(deposed bool, prefixes ...uint32) {
		t.Helper()
		if got := other.LastReign(); !slices.Equal(got, prefixes) || one.Deposed() != deposed {
			t.Errorf("the last ones were %d, want %d; the first is deposed: %t", got, prefixes, one.Deposed())
		}
	}
	want(false)
	must(t, one.Reign())
	want(false, 1)
	other.Abdicate() // it is not its own
	want(false, 1)
	must(t, other.Reign(1, 1<<31-2))
	want(true, 1<<31-1, 1, 1<<31-2)
	one.Abdicate()
	must(t, other.Reign())
	want(true, 1<<31-1)
	other.Abdicate()
	want(false)
}

func TestOwnVariablesWin(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	root := t.TempDir()
	out, _, _, err := Output(t.Context(), s, Spec{
		ID: "mine", Argv: []string{"env"}, TempRoot: root, Env: []string{"TMPDIR=/theirs", Marker + "=theirs", "PATH=/usr/bin:/bin"},
	})
	must(t, err)
	got := strings.Fields(string(out))
	slices.Sort(got)
	if want := []string{Marker + "=mine", "PATH=/usr/bin:/bin", "TMPDIR=" + root + "/mine"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLockFilesGoWithTheirManagers(t *testing.T) {
	t.Parallel()
	scope := t.TempDir()
	file, err := lockSlot(t.Name(), scope, 3, true)
	must(t, err)
	if other, err := lockSlot(t.Name(), scope, 3, true); other != nil || err != nil {
		t.Errorf("locked twice: %v %v", other, err)
	}
	unlock(file, true)
	if _, err := os.Stat(file.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", file.Name(), err)
	}
	if none, err := lockSlot(t.Name(), scope, 3, false); none != nil || err != nil {
		t.Errorf("found %v %v", none, err)
	}
}

func TestOutputOfAShortProgram(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	out, errs, exit, err := Output(t.Context(), s, Spec{ID: "short", Argv: []string{"sh", "-c", "echo a; echo b >&2; exit 3"}, Env: []string{"PATH=/usr/bin:/bin"}})
	if string(out) != "a\n" || string(errs) != "b\n" || exit.Code != 3 || err != nil {
		t.Errorf("%q %q %v %v", out, errs, exit, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, _, err = Output(ctx, s, Spec{ID: "long", Argv: []string{"sh", "-c", "sleep 1000 & sleep 1000"}, Env: []string{"PATH=/usr/bin:/bin"}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's error", err)
	}
}

func TestNoDescriptorLeaks(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "open"))
	must(t, err)
	defer file.Close()
	out, _, _, err := Output(t.Context(), s, Spec{ID: "fds", Argv: []string{"ls", "/proc/self/fd"}, Env: []string{"PATH=/usr/bin:/bin"}})
	must(t, err)
	if got := strings.Fields(string(out)); len(got) != 4 { // the three, and the one that ls reads the directory with
		t.Errorf("descriptors %v", got)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	st, ok := parseStat([]byte("12 (a) b (c) S 3 4 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2"))
	if !ok || st.name != "a) b (c" || st.state != 'S' || st.ppid != 3 || st.group != 4 || st.sess != 5 || st.start != 987654 {
		t.Errorf("%+v %v", st, ok)
	}
	for _, bad := range []string{"", "1", "1 (", "1 ()", "1 (x) S 1 2", ") ("} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
