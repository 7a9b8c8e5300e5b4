package testenv_test

import (
	"bytes"
	"context"
	"fmt"
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

// spawner is one for this test; it ends with it.
func spawner(t *testing.T) *process.Spawner {
	t.Helper()
	s, err := process.New(process.Options{Name: t.Name(), Scope: t.TempDir(), Logger: testenv.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// crawler is a stand-in that a test has started.
type crawler struct {
	*process.Process
	pids string // the file it records pids in
	out  string // the file that takes its output
}

func standIn(t *testing.T, env []string, args ...string) *crawler {
	t.Helper()
	s := spawner(t)
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := &crawler{pids: filepath.Join(dir, "pids"), out: out.Name()}
	c.Process, err = s.Start(t.Context(), process.Spec{
		ID:   t.Name(), // unique: trees are also known by it
		Argv: append([]string{testenv.StandIn(t)}, args...),
		Env:  append(env, "STANDIN_PIDS="+c.pids), Stdout: out, Stderr: out,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := c.Sweep(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// roles reads what the stand-in and its children have recorded: role by pid.
func (c *crawler) roles() map[int]string {
	data, _ := os.ReadFile(c.pids)
	roles := map[int]string{}
	for line := range strings.Lines(string(data)) {
		pid, role, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(pid); ok && err == nil {
			roles[n] = role
		}
	}
	return roles
}

// waitForRole waits until a child of this role is there and returns its pid.
func (c *crawler) waitForRole(t *testing.T, role string) int {
	t.Helper()
	found := 0
	testenv.Eventually(t, time.Minute, "a child that is a "+role, func() bool {
		for pid, r := range c.roles() {
			if r == role {
				found = pid
			}
		}
		return found != 0
	})
	return found
}

func (c *crawler) waitForEnd(t *testing.T) process.Exit {
	t.Helper()
	select {
	case <-c.Exited():
		return c.Exit()
	case <-time.After(time.Minute):
		t.Fatal("it has not ended")
		return process.Exit{}
	}
}

// statOf reads state, parent and session from /proc.
func statOf(t *testing.T, pid int) (state string, parent, session int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, 0
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	session, _ = strconv.Atoi(fields[3])
	return fields[0], parent, session
}

func TestStandInEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		args   []string
		signal syscall.Signal
		want   string
	}{
		{"by itself", []string{"-after", "0s", "-exit", "3"}, 0, "exit 3"},
		{"by a signal of its own", []string{"-after", "0s", "-kill-self"}, 0, "signal SIGKILL"},
		{"on SIGTERM", []string{}, syscall.SIGTERM, "exit 0"},
		{"late on SIGTERM", []string{"-term-delay", "50ms", "-exit", "1"}, syscall.SIGTERM, "exit 1"},
		{"not on SIGTERM", []string{"-ignore-term", "-after", "500ms", "-exit", "4"}, syscall.SIGTERM, "exit 4"},
		{"with memory", []string{"-allocate", "20", "-after", "0s"}, 0, "exit 0"},
		{"wrong flag", []string{"-nonsense"}, 0, "exit 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			redis := testenv.Redis(t)
			client := redis.Client(t)
			c := standIn(t, []string{"STANDIN_LIST=starts", "STANDIN_REDIS=" + redis.URL()}, append(test.args, "-code", "c1")...)
			if test.signal != 0 {
				testenv.Eventually(t, time.Minute, "report of its start", func() bool {
					lines, err := client.LRange(t.Context(), "starts", 0, -1).Result()
					return err == nil && len(lines) == 1 && strings.HasPrefix(lines[0], fmt.Sprintf("c1 %d ", c.Pid()))
				})
				if err := c.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.waitForEnd(t).String(); got != test.want {
				t.Errorf("ended by %s, want %s", got, test.want)
			}
		})
	}
}

func TestStandInChildren(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		args    []string
		role    string
		orphan  bool
		session bool // another than the leader's
	}{
		{"plain", []string{"-children", "2"}, "child", false, false},
		{"stubborn", []string{"-stubborn", "1"}, "stubborn", false, false},
		{"own session", []string{"-setsid"}, "session", false, true},
		{"daemon", []string{"-double-fork"}, "daemon", true, true},
		{"holds the pipe", []string{"-children", "1", "-hold-pipe"}, "child", false, false},
		{"storm", []string{"-storm", "5", "-storm-width", "2"}, "storm", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := standIn(t, nil, test.args...)
			child := c.waitForRole(t, test.role)
			_, _, leaderSession := statOf(t, c.Pid())
			if test.role == "storm" {
				testenv.Eventually(t, time.Minute, "the whole storm", func() bool { return len(c.roles()) == 13 })
				return
			}
			testenv.Eventually(t, time.Minute, "the right parent and session", func() bool {
				state, parent, session := statOf(t, child)
				return state != "" && (parent != c.Pid()) == test.orphan && (session != leaderSession) == test.session
			})
			out, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", child))
			if holds := out == c.out; err != nil || holds != (test.name == "holds the pipe") {
				t.Errorf("stdout of the child is %s (%v)", out, err)
			}
		})
	}
}

func TestStandInLeavesAChild(t *testing.T) {
	t.Parallel()
	c := standIn(t, nil, "-leave-child", "-children", "1")
	c.waitForRole(t, "child")
	if err := c.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := c.waitForEnd(t).String(); got != "exit 0" {
		t.Errorf("ended by %s, want exit 0", got)
	}
	if state, _, _ := statOf(t, c.waitForRole(t, "stubborn")); state == "" || state == "Z" {
		t.Errorf("the child is in state %q, want it alive", state)
	}
}

func TestStandInDisguise(t *testing.T) {
	t.Parallel()
	c := standIn(t, []string{"SECRET=visible"}, "-setsid", "-disguise")
	child := c.waitForRole(t, "session")
	testenv.Eventually(t, time.Minute, "an environment that says nothing", func() bool {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", child))
		title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		return err == nil && len(bytes.Trim(env, "\x00")) == 0 && !bytes.Contains(title, []byte("role"))
	})
}

func TestStandInStopsItself(t *testing.T) {
	t.Parallel()
	c := standIn(t, nil, "-stop-self")
	testenv.Eventually(t, time.Minute, "state T", func() bool {
		state, _, _ := statOf(t, c.Pid())
		return state == "T"
	})
}

func TestStandInPrints(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"lines", []string{"-lines", "2"}, "line 1\nline 2\n"},
		{"many bytes", []string{"-write", "1000"}, strings.Repeat(strings.Repeat("x", 99)+"\n", 10)},
		{"long line on stderr", []string{"-long-line", "250", "-to-stderr"}, strings.Repeat("x", 250) + "\n"},
		{"garbage", []string{"-garbage"}, "garbage \xff\xfe\x00\xc3( end\n"},
		{"half a line", []string{"-lines", "1", "-half", "torn"}, "line 1\ntorn"},
		{"closed", []string{"-lines", "1", "-close-stdout"}, "line 1\n"},
		{"goes on", []string{"-print-every", "1h"}, "still here 1\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := standIn(t, nil, append(test.args, "-after", "100ms")...)
			c.waitForEnd(t)
			got, err := os.ReadFile(c.out)
			if err != nil || string(got) != test.want {
				t.Errorf("printed %q (%v), want %q", got, err, test.want)
			}
		})
	}
}

func TestStandInTakesTicks(t *testing.T) {
	t.Parallel()
	redis, db := testenv.Redis(t), testenv.Postgres(t)
	db.Exec(t, testenv.OldSchema)
	client := redis.Client(t)
	standIn(t, []string{
		"CRAWLKEEPER_SOURCE=it's", "CRAWLKEEPER_REDIS_URL=" + redis.URL(), "CRAWLKEEPER_START_URLS_KEY=ticks",
		"CRAWLKEEPER_POSTGRES_URL=" + db.URL(), "STANDIN_LIST=starts",
	}, "-ticks", "-runs", "-run-for", "300ms")
	if err := client.RPush(t.Context(), "ticks", `{"trigger":"startup"}`, `{"trigger":"schedule"}`).Err(); err != nil {
		t.Fatal(err)
	}
	count := func(status string) int {
		return testenv.Value[int](t, db, "SELECT count(*) FROM crawl_runs WHERE source_code = 'it''s' AND status = $1", status)
	}
	testenv.Eventually(t, time.Minute, "a run that is open", func() bool { return count("running") == 1 })
	testenv.Eventually(t, time.Minute, "two runs that are closed", func() bool { return count("succeeded") == 2 })
	got := testenv.Value[string](t, db, "SELECT string_agg(trigger, ' ' ORDER BY id) FROM crawl_runs WHERE finished_at > started_at")
	if got != "startup schedule" {
		t.Errorf("triggers of the runs: %q", got)
	}
	if n := client.LLen(t.Context(), "starts:ticks").Val(); n != 2 {
		t.Errorf("reported %d ticks, want 2", n)
	}
}
