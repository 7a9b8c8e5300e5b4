package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"crawlkeeper/control"
)

// heard is the lines of a file, sorted.
func heard(path string) []string {
	data, _ := os.ReadFile(path)
	lines := strings.Fields(string(data))
	slices.Sort(lines)
	return lines
}

// At a reload crawlers that stay get their signal once; those that are started anew, and those that would end by it, do not.
func TestCrawlersReadTheirConfigurationAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, file := filepath.Join(dir, "crawler"), filepath.Join(dir, "heard")
	const trap = `trap 'echo "$1" >>"$2"' HUP
echo "$1-up" >>"$2"
while :; do sleep 1 & wait $!; done # a signal just before the wait is seen after it
`
	if err := os.WriteFile(script, []byte(trap), 0o600); err != nil {
		t.Fatal(err)
	}
	adapter := func(name, more string) string { // a shell cannot trap what nohup has it ignore
		return fmt.Sprintf("  %s: {command: [env, --default-signal=HUP, /bin/sh, %q, %q, %q], stop_timeout: 2s%s}\n", name, script, "{code}", file, more)
	}
	const hup = ", reload_signal: SIGHUP"
	w := newWorld(t, adapter("same", hup), adapter("changed", hup+", env: {A: '1'}"), adapter("none", ""), adapter("deaf", ", reload_signal: SIGUSR1"))
	for _, code := range []string{"same", "changed", "none", "deaf"} {
		w.source(code)
		w.pg.Exec(t, `update sources set adapter=$1 where code=$1`, code)
	}
	w.start()
	all := []string{"changed-up", "deaf-up", "none-up", "same-up"}
	is := func(what string, want []string) {
		t.Helper()
		slices.Sort(want)
		defer func() {
			if t.Failed() {
				t.Logf("heard: %v, want %v", heard(file), want)
			}
		}()
		eventually(t, what, func() bool { return slices.Equal(heard(file), want) })
	}
	is("all are up", slices.Clone(all))
	before := map[string]int{}
	for _, code := range []string{"same", "changed", "none", "deaf"} {
		before[code] = w.phase(code, "running").Pid
	}

	w.write(strings.Replace(w.text, "A: '1'", "A: '2'", 1))
	w.must(control.Command{Action: "reload"})
	all = append(all, "same", "changed-up")
	is("one is told, one is new", slices.Clone(all))

	for source, want := range map[string]string{
		"same": "", "none": "its adapter has no reload_signal",
		"deaf": "its crawler does not handle the signal and would end by it: it was not sent",
	} {
		r := w.command(control.Command{Action: "reload", Sources: []string{source}})
		if got := r.Results[source]; got.Error != want || got.OK != (want == "") {
			t.Errorf("%s: %+v", source, r)
		}
	}
	all = append(all, "same")
	is("it is told again", slices.Clone(all))
	w.must(control.Command{Action: "stop", Sources: []string{"same"}})
	if r := w.command(control.Command{Action: "reload", Adapter: "same"}); r.Results["same"].Error != "its crawler does not run" {
		t.Errorf("%+v", r)
	}
	eventually(t, "the status shows the new process", func() bool { // it is written a little later
		pid := w.records()["changed"].Pid
		return pid != 0 && pid != before["changed"]
	})
	for _, code := range []string{"none", "deaf"} {
		if w.phase(code, "running").Pid != before[code] {
			t.Errorf("%s has another process", code)
		}
	}
	is("nobody hears more", slices.Clone(all))
}

func TestAReloadTellsEachCrawlerOnce(t *testing.T) {
	t.Parallel()
	staged(t, map[string][]string{"hup": {}}, func(s *stage) {
		a := s.conf.Adapters["hup"]
		a.ReloadSignal = "SIGUSR2"
		s.conf.Adapters["hup"] = a
		s.pollOf("hup-1", "hup-2", "hup-3", "x-1")
		got := map[string][]syscall.Signal{}
		s.mu.Lock()
		for code, p := range s.procs {
			p.onSignal = func(sig syscall.Signal) {
				s.mu.Lock()
				defer s.mu.Unlock()
				got[code] = append(got[code], sig)
			}
		}
		s.mu.Unlock()
		s.do(control.Command{Action: "stop", Sources: []string{"hup-3"}})
		if r := s.do(control.Command{Action: "reload"}); !r.OK {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		want := []syscall.Signal{syscall.SIGUSR2}
		if len(got) != 2 || !slices.Equal(got["hup-1"], want) || !slices.Equal(got["hup-2"], want) {
			t.Errorf("%v", got)
		}
	})
}
