package manager

import (
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"crawlkeeper/control"
	"crawlkeeper/worker"
	"crawlkeeper/worker/process"
)

func TestTroubleInWords(t *testing.T) {
	t.Parallel()
	exit := func(cause worker.Cause, e process.Exit) *worker.Exit { return &worker.Exit{Exit: e, Cause: cause} }
	crashed := exit(worker.Crashed, process.Exit{Code: 1})
	long := strings.Repeat("é", longestLine)
	for _, c := range []struct {
		trouble worker.Trouble
		want    string
	}{
		{worker.Trouble{Ends: 7, Exit: crashed, LastLine: "ModuleNotFoundError: No module named 'x'"}, "crashed 7 times in a row (exit 1): ModuleNotFoundError: No module named 'x'"},
		{worker.Trouble{Ends: 2, Exit: exit(worker.Exited, process.Exit{})}, "ended by itself 2 times in a row (exit 0)"},
		{worker.Trouble{Ends: 3, Exit: exit(worker.Signalled, process.Exit{Code: -1, Signal: syscall.SIGSEGV})}, "was ended by a signal 3 times in a row (signal SIGSEGV)"},
		{worker.Trouble{Ends: 3, Mixed: true, Exit: exit(worker.OutOfMemory, process.Exit{Signal: syscall.SIGKILL})}, "failed 3 times in a row; the last time it ran out of memory (signal SIGKILL)"},
		{worker.Trouble{Ends: 4, Exit: &worker.Exit{Cause: worker.StartFailed, Error: "start x: no such file"}, LastLine: "old"}, "could not be started 4 times in a row: start x: no such file"},
		{worker.Trouble{Ends: 6, Exit: crashed, LastLine: "boom", GivenUp: "gave up after 5 restarts within 10m"}, "gave up after 5 restarts within 10m: crashed (exit 1): boom; `crawlkeeper restart bbc` starts it again"},
		{worker.Trouble{Ends: 6, Mixed: true, Exit: exit(worker.Exited, process.Exit{}), GivenUp: "not restarted: policy never"}, "not restarted: policy never: ended by itself (exit 0); `crawlkeeper restart bbc` starts it again"},
		{worker.Trouble{Ends: 2, Exit: crashed, LastLine: "no route to postgres://me:hunter2@db/x"}, "crashed 2 times in a row (exit 1): no route to postgres://***@db/x"},
		{worker.Trouble{Ends: 2, Exit: crashed, LastLine: "\x1b[31mno\tUTF-8: \xff\x1b[0m"}, "crashed 2 times in a row (exit 1): [31mno UTF-8: \uFFFD [0m"},
		{worker.Trouble{Ends: 2, Exit: crashed, LastLine: long}, "crashed 2 times in a row (exit 1): " + long},
		{worker.Trouble{Ends: 2, Exit: crashed, LastLine: long + "é"}, "crashed 2 times in a row (exit 1): " + long + "…"},
		{worker.Trouble{Ends: 2, Exit: crashed, LastLine: strings.Repeat("x", longestLine-20) + " redis://u:hunter2" + long + "@h"}, "crashed 2 times in a row (exit 1): " + strings.Repeat("x", longestLine-20) + " redis://***@h"},
		{worker.Trouble{Ends: 3, Exit: &worker.Exit{Exit: process.Exit{Code: -1, Signal: syscall.SIGKILL}, Cause: worker.Sick, Why: "http: status 500"}, LastLine: "bye"}, "was unhealthy and had to be ended 3 times in a row (signal SIGKILL): http: status 500"},
		{worker.Trouble{Ends: 2, Exit: &worker.Exit{Cause: worker.Limit, Why: "memory: 3 MiB of 2 MiB"}, LastLine: "bye"}, "used more than it may and had to be ended 2 times in a row (exit 0): memory: 3 MiB of 2 MiB"},
	} {
		if got := troubleText("bbc", &c.trouble); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

func TestEachEndThatNobodyWantedHasWords(t *testing.T) {
	t.Parallel()
	for _, cause := range worker.Causes {
		if _, ok := did[cause]; ok != cause.Unwanted() {
			t.Errorf("%s has words: %v", cause, ok)
		}
	}
}

// A record is made for each source with each write of the status: it must not make the text again.
func TestTroubleIsWordedOnce(t *testing.T) {
	t.Parallel()
	s := &source{}
	trouble := &worker.Trouble{Ends: 2, Exit: &worker.Exit{Cause: worker.Crashed}, LastLine: "x"}
	first, second := s.problem(trouble), s.problem(trouble)
	if first == "" || unsafe.StringData(first) != unsafe.StringData(second) {
		t.Errorf("%q, then another %q", first, second)
	}
	if got := s.problem(nil); got != "" {
		t.Errorf("%q is left", got)
	}
}

func TestACrashLoopSaysWhy(t *testing.T) {
	t.Parallel()
	crashy := strings.Replace(standin(t, "*", "-half", "Error: no such table", "-exit", "3", "-after", "0s"), "max: 1s", "max: 400ms", 1)
	w := newWorld(t, crashy)
	w.source("a")
	r := w.start()
	eventually(t, "the trouble", func() bool {
		got := w.records()["a"]
		return got.Phase == "cooling" && strings.HasSuffix(got.Problem, " times in a row (exit 3): Error: no such table")
	})
	w.write(strings.Replace(w.text, crashy, standin(t, "*"), 1))
	w.must(control.Command{Action: "reload"})
	if got := w.phase("a", "running"); got.Problem != "" {
		t.Errorf("it runs by another configuration, and still: %s", got.Problem)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}
