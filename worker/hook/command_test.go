package hook

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

func TestACommandGetsItsEvent(t *testing.T) {
	t.Parallel()
	h := sh(`cat; echo "point $CRAWLKEEPER_HOOK"`)
	event := Event{Hook: "final", ID: "final:1", Source: "s", At: time.Now().UTC(), Process: &Process{ID: "1"}, LastLines: []string{"<boom>"}}
	var told []Command
	got := newRunner(t).Run(t.Context(), h, &event, func(c Command) { told = append(told, c) })
	if got.Outcome != OK || len(told) != 2 || told[0].Process == nil || told[1].Process.Pid() != told[0].Process.Pid() || !told[0].Ended.IsZero() || told[1].Ended.IsZero() {
		t.Fatalf("%+v, told %+v", got, told)
	}
	lines := told[1].Lines
	var back Event
	if err := json.Unmarshal([]byte(lines[0]), &back); err != nil || back.ID != event.ID || back.LastLines[0] != "<boom>" || !back.At.Equal(event.At) {
		t.Errorf("standard input was %s: %v", lines[0], err)
	}
	if lines[1] != "point final" {
		t.Errorf("environment: %s", lines[1])
	}
}

func TestCommandsThatGoWrong(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	brief := func(h *Hook) *Hook { h.Timeout = time.Second; return h }
	for name, c := range map[string]struct {
		hook    *Hook
		outcome string
		reason  string
	}{
		"it exits 1":            {sh("echo why >&2; echo; exit 1"), Failed, "why"},
		"it exits 1 in silence": {sh("exit 1"), Failed, "exit 1"},
		"it is killed":          {sh("kill -9 $$"), Failed, "signal SIGKILL"},
		"it hangs":              {brief(sh("trap '' TERM; sleep 1000")), TimedOut, "it took too long and was ended"},
		"it floods":             {sh("head -c 1000000000 /dev/zero; echo; echo the end; exit 1"), Failed, "the end"},
		"it is missing":         {&Hook{Command: process.Spec{Argv: []string{"/no/such"}}, Timeout: patience}, Failed, "start /no/such: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.Run(t.Context(), c.hook, &Event{}, nil)
			if got.Outcome != c.outcome || !strings.HasPrefix(got.Reason, c.reason) {
				t.Errorf("%+v, want %s, %s", got, c.outcome, c.reason)
			}
		})
	}
}

func TestNothingOfACommandIsLeft(t *testing.T) {
	t.Parallel()
	var last Command
	got := newRunner(t).Run(t.Context(), sh("setsid sleep 1000 & echo $!"), &Event{}, func(c Command) { last = c })
	pid, err := strconv.Atoi(last.Lines[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, there := process.StartTime(pid); there || got.Outcome != OK || len(last.Program.Report.Swept) != 1 {
		t.Errorf("what it started lives: %v; %+v, swept %v", there, got, last.Program.Report.Swept)
	}
}

func TestACommandIsCutOff(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan Result)
	go func() { done <- r.Run(ctx, sh("echo >"+ready+"; sleep 1000"), &Event{}, nil) }()
	testenv.Eventually(t, patience, "it runs", func() bool { _, err := os.Stat(ready); return err == nil })
	cancel()
	if got := <-done; got.Outcome != Cancelled || !errors.Is(got.Err(), context.Canceled) {
		t.Errorf("%+v", got)
	}
}
