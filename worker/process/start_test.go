package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

func TestAnotherUser(t *testing.T) {
	t.Parallel()
	if !testenv.Root(t, "starts programs as other users") {
		return
	}
	s := spawner(t)
	umask := 0o077
	for _, c := range []struct {
		name string
		spec process.Spec
		want string
	}{
		{"by name", process.Spec{User: "nobody"}, "65534 65534 65534"},
		{"by number", process.Spec{User: "65534"}, "65534 65534 65534"},
		{"through the step", process.Spec{User: "nobody", Umask: &umask}, "65534 65534 65534"},
		{"with a group", process.Spec{User: "nobody", Group: "daemon"}, "65534 1 1 65534"},
		{"a number without account", process.Spec{User: "4242", Group: "4243"}, "4242 4243 4243"},
		{"ourselves", process.Spec{User: "root"}, "0 0 0"},
		{"a group alone", process.Spec{Group: "daemon"}, "0 1 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root, err := os.MkdirTemp("", "crawlkeeper-users-")
			must(t, err)
			t.Cleanup(func() { os.RemoveAll(root) })
			c.spec.TempRoot = filepath.Join(root, "below")
			must(t, os.Chmod(root, 0o711))
			c.spec.Argv = []string{"sh", "-c", `echo $(id -u) $(id -g) $(id -G) && echo x >$TMPDIR/file`}
			if c.spec.Umask != nil {
				c.spec.Argv[2] += ` && stat -c %a $TMPDIR/file >&2`
			}
			got := strings.TrimSpace(output(t, s, c.spec))
			if c.name == "ourselves" || c.name == "a group alone" { // whatever groups we are in come behind
				got = got[:min(len(got), len(c.want))]
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	t.Cleanup(func() {
		must(t, until("the change of user has left us dumpable", func() bool { // for a moment it does not, also that of other tests
			n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
			return n == 1 && err == nil
		}))
	})
}

func TestStep(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	dir := t.TempDir()
	umask, nice := 0o027, testenv.Nice(7)
	p := start(t, s, process.Spec{
		Argv: []string{"sh", "-c", `(umask; nice; ulimit -n; pwd; echo $0 $1) >out; exec sleep 1000`, "a b", "c"}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"},
		Umask: &umask, Nice: &nice, Rlimits: map[string]process.Rlimit{"nofile": {Soft: 99, Hard: 200}, "core": {Soft: 0, Hard: process.Unlimited}},
	})
	want := fmt.Sprintf("0027\n%d\n99\n", nice) + dir + "\na b c\n"
	err := until("its output", func() bool { data, _ := os.ReadFile(dir + "/out"); return string(data) == want })
	if err != nil {
		data, _ := os.ReadFile(dir + "/out")
		t.Errorf("%v: %q, want %q", err, data, want)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.Pid()))
	must(t, err)
	if number := fmt.Sprint(p.Fingerprint()); s.Ways().Fingerprint && !strings.Contains(string(limits), number) {
		t.Errorf("the fingerprint %s is gone:\n%s", number, limits)
	}
}

func TestFailuresOfTheStep(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	must(t, os.WriteFile(script, []byte("#!"+dir+"/no-such-interpreter\n"), 0o700))
	umask, steep := 0, -20
	none := map[string]process.Rlimit{"nproc": {Soft: 0, Hard: 0}}
	cases := map[string]struct {
		spec process.Spec
		want error
		text string
	}{
		"the exec":         {process.Spec{Argv: []string{script}, Umask: &umask}, syscall.ENOENT, "interpreter"},
		"an unknown limit": {process.Spec{Argv: []string{"true"}, Rlimits: map[string]process.Rlimit{"locks": {}}}, syscall.EINVAL, `no limit "locks"`},
		"a crossed limit":  {process.Spec{Argv: []string{"true"}, Rlimits: map[string]process.Rlimit{"cpu": {Soft: 2, Hard: 1}}}, syscall.EINVAL, "above hard"},
		"an unknown user":  {process.Spec{Argv: []string{"true"}, User: "no-such-user"}, syscall.EINVAL, "no such account"},
		"an unknown group": {process.Spec{Argv: []string{"true"}, Group: "no-such-group"}, syscall.EINVAL, "no such group"},
		"a bare number":    {process.Spec{Argv: []string{"true"}, User: "4242"}, syscall.EINVAL, "a group is needed"},
	}
	if os.Getuid() == 0 {
		cases["no processes left"] = struct {
			spec process.Spec
			want error
			text string
		}{process.Spec{Argv: []string{"true"}, User: "nobody", Rlimits: none}, syscall.EAGAIN, "no more processes"}
	} else {
		cases["not permitted"] = struct {
			spec process.Spec
			want error
			text string
		}{process.Spec{Argv: []string{"true"}, Nice: &steep}, syscall.EACCES, "nice"}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.spec.ID, c.spec.Env, c.spec.TempRoot = uniqueID(), os.Environ(), t.TempDir()
			_, err := s.Start(t.Context(), c.spec)
			var failed *process.StartError
			if !errors.As(err, &failed) || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("%v, want %v with %q", err, c.want, c.text)
			}
			if left, _ := os.ReadDir(c.spec.TempRoot); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestABusyFileIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	file := filepath.Join(t.TempDir(), "program")
	must(t, duplicate(testenv.StandIn(t), file))
	busy, err := os.OpenFile(file, os.O_WRONLY, 0)
	must(t, err)
	defer busy.Close()
	_, err = s.Start(t.Context(), process.Spec{ID: uniqueID(), Argv: []string{file}})
	if !errors.Is(err, syscall.ETXTBSY) || !strings.Contains(err.Error(), "open for writing") {
		t.Fatalf("%v, want ETXTBSY", err)
	}
	busy.Close()
	start(t, s, process.Spec{Argv: []string{file, "-after", "0s"}})
}

// An exit and a stop at one moment: every process ends once, is known to have ended, and leaves nothing.
func TestExitsAgainstStops(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	var all sync.WaitGroup
	gate := make(chan struct{}, 50)
	for i := range 2000 {
		all.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			p, err := s.Start(t.Context(), process.Spec{ID: uniqueID(), Argv: []string{"sh", "-c", "exit 4"}, Env: []string{"PATH=/usr/bin:/bin"}})
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 {
				<-p.Exited()
			}
			err = errors.Join(p.Ask(syscall.SIGTERM), sweep(p))
			if e := p.Exit(); err != nil || e.Code != 4 && e.Signal != syscall.SIGTERM && e.Signal != syscall.SIGKILL {
				t.Errorf("exit %v, %v", e, err)
			}
			if _, there := procOf(p.Pid()); there && lives(p.Pid()) && strings.Contains(cmdline(p.Pid()), "exit 4") {
				t.Errorf("pid %d lives on", p.Pid())
			}
		})
	}
	all.Wait()
}

// counted are streams that count how many are open at once, over all starts.
type counted struct{ open, most *atomic.Int64 }

func (c counted) Open() (stdout, stderr *os.File, err error) {
	n := c.open.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return nil, nil, nil
}

func (c counted) Forked() { c.open.Add(-1) }

func TestStartsThatWaitHoldNoDescriptors(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	streams := counted{new(atomic.Int64), new(atomic.Int64)}
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			p, err := s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: []string{"true"}, Env: os.Environ(), Streams: streams})
			if err == nil {
				<-p.Exited()
				err = sweep(p)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if open, most := streams.open.Load(), streams.most.Load(); open != 0 || most == 0 || most > process.TurnSlots {
		t.Errorf("%d are open, and %d were at once", open, most)
	}
}

func TestOutputThatCannotBeOpenedIsAFailedStart(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	_, err := s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: []string{"true"}, Env: os.Environ(), Streams: broken{}})
	if failed, ok := errors.AsType[*process.StartError](err); !ok || !strings.Contains(failed.Reason, "its output: too many open files") {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Open() (stdout, stderr *os.File, err error) { return nil, nil, syscall.EMFILE }
func (broken) Forked()                                    { panic("nothing was opened") }
