package program_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
	"crawlkeeper/worker/program"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func spawner(t *testing.T) *process.Spawner {
	t.Helper()
	s, err := process.New(process.Options{Name: t.Name(), Scope: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

func sh(script string) program.Spec {
	return program.Spec{
		Process: process.Spec{ID: uuid.NewString(), Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}},
		Keep:    64 << 10,
		Timeout: time.Minute,
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	much := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		spec   program.Spec
		input  string
		output string
		code   int
	}{
		"its status and both streams": {spec: sh("echo one; echo two >&2; exit 3"), output: "one\ntwo\n", code: 3},
		"its input":                   {spec: sh("cat"), input: "hello", output: "hello"},
		"input that it does not read": {spec: sh("exit 0"), input: much},
		"input without end of lines":  {spec: sh("wc -c"), input: much, output: "1048576\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Input = []byte(c.input)
			var pid int
			c.spec.Started = func(p *process.Process) { pid = p.Pid() }
			r, err := program.Run(t.Context(), s, c.spec)
			if err != nil || string(r.Output) != c.output || r.Exit.Code != c.code || pid == 0 {
				t.Errorf("%q, %+v, pid %d, error %v", r.Output, r.Exit, pid, err)
			}
		})
	}
}

func TestAFloodIsReadAndItsEndKept(t *testing.T) {
	t.Parallel()
	spec := sh("yes flood | head -c 100000000; echo the end")
	spec.Keep = 1000
	r, err := program.Run(t.Context(), spawner(t), spec)
	if err != nil || r.Written != 100000008 || len(r.Output) != 1000 || !strings.HasSuffix(string(r.Output), "the end\n") {
		t.Errorf("%d bytes, kept %d, error %v", r.Written, len(r.Output), err)
	}
}

func TestWhatDoesNotEndIsEnded(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	const script = "setsid sleep 1000 & echo $!; trap '' TERM; sleep 1000"
	gone := func(t *testing.T, r program.Result) {
		t.Helper()
		pid, err := strconv.Atoi(strings.TrimSpace(string(r.Output)))
		if err != nil {
			t.Fatalf("output %q", r.Output)
		}
		if _, there := process.StartTime(pid); there {
			t.Error("what it started lives")
		}
		if len(r.Report.Swept) == 0 {
			t.Error("the report does not name what was ended")
		}
	}
	t.Run("by its timeout", func(t *testing.T) {
		t.Parallel()
		spec := sh(script)
		spec.Timeout = time.Second
		r, err := program.Run(t.Context(), s, spec)
		if !errors.Is(err, program.ErrTimeout) {
			t.Errorf("error %v", err)
		}
		gone(t, r)
	})
	t.Run("by the context", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := t.TempDir() + "/ready"
		spec := sh("setsid sleep 1000 & echo $!; echo >" + out + "; sleep 1000")
		var r program.Result
		var err error
		done := make(chan struct{})
		go func() { defer close(done); r, err = program.Run(ctx, s, spec) }()
		testenv.Eventually(t, time.Minute, "it runs", func() bool { _, err := os.Stat(out); return err == nil })
		cancel()
		<-done
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		gone(t, r)
	})
	t.Run("what is left of one that ended", func(t *testing.T) {
		t.Parallel()
		r, err := program.Run(t.Context(), s, sh("setsid sleep 1000 & echo $!"))
		if err != nil {
			t.Error(err)
		}
		gone(t, r)
	})
}

func TestAMissingProgram(t *testing.T) {
	t.Parallel()
	spec := sh("")
	spec.Process.Argv = []string{"/no/such/program"}
	_, err := program.Run(t.Context(), spawner(t), spec)
	if start := new(process.StartError); !errors.As(err, &start) {
		t.Errorf("error %v", err)
	}
}
