package manager

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
	"crawlkeeper/worker"
)

// restarting is the stand-in under a restart policy.
func restarting(t *testing.T, name, restart string, flags ...string) string {
	t.Helper()
	text := strings.Replace(standin(t, name, flags...), "pass_urls", "restart: "+restart+", pass_urls", 1)
	return strings.Replace(text, "min: 200ms, max: 1s", "min: 10ms, max: 20ms", 1)
}

func TestTheWordsOfPoliciesAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	a := configs.Default().Defaults
	a.Command = []string{"x"}
	for word, when := range map[string]worker.When{
		configs.RestartAlways: worker.Always, configs.RestartOnFailure: worker.OnFailure, configs.RestartNever: worker.Never,
	} {
		a.Restart = configs.Restart{Policy: word, Max: 3, Within: 7}
		if got := workerSpec("a", &a, "", nil); got.Restart != (worker.Policy{When: when, Max: 3, Within: 7}) {
			t.Errorf("%s: %+v", word, got.Restart)
		}
	}
}

// logged waits for a row of crawl_logs and returns its level.
func (w *world) logged(code, like string) string {
	w.t.Helper()
	var level string
	eventually(w.t, "a log line like "+like, func() bool {
		level = testenv.Value[string](w.t, w.pg, `select coalesce(max(level), '') from crawl_logs where source_code=$1 and message like $2`, code, like)
		return level != ""
	})
	return level
}

func TestACrawlerThatIsRestartedTooOftenIsGivenUp(t *testing.T) {
	t.Parallel()
	const max2 = "{max: 2, within: 1h}"
	adapter := restarting(t, "*", max2, "-half", "Error: no such table", "-exit", "3", "-after", "0s")
	w := newWorld(t, adapter)
	w.source("a")
	events := w.rdb.Subscribe(t.Context(), "crawler:events")
	defer events.Close()
	if _, err := events.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := w.start()
	w.reports(3)
	const why = "gave up after 2 restarts within 1h: crashed (exit 3): Error: no such table; `crawlkeeper restart a` starts it again"
	if got := w.phase("a", "stopped"); got.Problem != why || got.Pid != 0 || !got.Enabled {
		t.Errorf("%+v", got)
	}
	if level := w.logged("a", "%gave up after 2 restarts within 1h; `crawlkeeper restart a` starts it again%"); level != levelError {
		t.Errorf("logged as %s", level)
	}
	for message := range events.Channel() {
		var e status.Event
		if err := json.Unmarshal([]byte(message.Payload), &e); err != nil {
			t.Fatal(err)
		}
		if e.To == "stopped" {
			if e.From != "stopping" || e.Cause != "crashed" {
				t.Errorf("%+v", e)
			}
			break
		}
	}
	if got := r.exhausted(); got != 1 {
		t.Errorf("%d are exhausted", got)
	}
	scrape := httptest.NewRecorder()
	r.server().Handler.ServeHTTP(scrape, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if !strings.Contains(scrape.Body.String(), "\ncrawlkeeper_restarts_exhausted 1\n") {
		t.Error("the metrics do not show it")
	}

	again := func(starts int) {
		w.reports(starts)
		eventually(t, "it is given up again", func() bool { return r.exhausted() == 1 })
	}
	w.must(control.Command{Action: "restart", Sources: []string{"a"}})
	again(3)
	w.must(control.Command{Action: "start", Sources: []string{"a"}})
	again(3)
	w.write(strings.Replace(w.text, max2, "{max: 1, within: 1h}", 1))
	w.must(control.Command{Action: "reload"})
	again(2)
	w.must(control.Command{Action: "stop", Sources: []string{"a"}})
	eventually(t, "the problem is gone", func() bool { return w.records()["a"].Problem == "" })
	w.must(control.Command{Action: "start", Sources: []string{"a"}})
	again(2)
	w.pg.Exec(t, `delete from sources`)
	eventually(t, "a deleted source leaves", func() bool { return len(w.records()) == 0 })
	w.none()
}

func TestASuccessfulEndIsNoErrorWhereItIsNotRestarted(t *testing.T) {
	t.Parallel()
	done := []string{"-exit", "0", "-after", "0s"}
	w := newWorld(t, restarting(t, "builtin", "{policy: on-failure}", done...), restarting(t, "once", "{policy: never}", "-exit", "4", "-after", "0s"),
		fmt.Sprintf("  none: {command: [%q], restart: {policy: never}}\n", t.TempDir()+"/no-such-program"))
	w.source("a", "b", "c")
	w.pg.Exec(t, `update sources set adapter='once' where code='b'`)
	w.pg.Exec(t, `update sources set adapter='none' where code='c'`)
	r := w.start()
	w.reports(2)
	for code, want := range map[string]struct{ problem, level string }{
		"a": {"not restarted: policy on-failure: ended by itself (exit 0)", levelInfo},
		"b": {"not restarted: policy never: crashed (exit 4)", levelError},
		"c": {"not restarted: policy never: could not be started", levelError},
	} {
		if got := w.phase(code, "stopped"); !strings.HasPrefix(got.Problem, want.problem) {
			t.Errorf("%s: %q", code, got.Problem)
		}
		if level := w.logged(code, "%, not restarted: policy%"); level != want.level {
			t.Errorf("%s is logged as %s", code, level)
		}
	}
	if got := r.exhausted(); got != 0 {
		t.Errorf("%d are exhausted", got)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	w.none()
	w.start() // a new manager knows nothing of it
	w.reports(2)
}
