package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/health"
	"crawlkeeper/worker/program"
)

// checked is the adapter of tests with a check, or several.
func checked(adapter string, checks ...string) string {
	return strings.Replace(adapter, "pass_urls: true", "pass_urls: true, health: ["+strings.Join(checks, ", ")+"]", 1)
}

// quick makes a check that looks often and says so soon.
func quick(check string) string {
	return "{" + check + ", every: 100ms, after: 0s, unhealthy: 2, healthy: 2}"
}

// touch makes a file, and remove removes it: the stand-in is sick while it is there.
func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// Each type of check sees a real crawler turn bad, and good again, without touching it.
func TestChecksSeeBadAndGood(t *testing.T) {
	t.Parallel()
	for check, c := range map[string]struct {
		flags []string
		phase string
		why   string
	}{
		"type: heartbeat, for: 5m, action: report":                      {[]string{"-beat", "20ms"}, "unhealthy", "heartbeat: it is gone"},
		"type: heartbeat, for: 100ms":                                   {[]string{"-beat", "3s"}, "unhealthy", "heartbeat: it has not moved for"},
		"type: tick_taken, for: 500ms":                                  {[]string{"-ticks"}, "stalled", "tick_taken: a tick waits for"},
		"type: run, for: 2s":                                            {[]string{"-ticks", "-runs", "-run-for", "100ms"}, "stalled", "run: a run is open for"},
		"type: output, for: 2s":                                         {[]string{"-ticks", "-runs", "-run-for", "100ms", "-print-every", "50ms"}, "stalled", "output: no line while a run is open for"},
		"type: command, command: [test, '!', -e, SICK], action: report": {nil, "unhealthy", "command: exit 1"},
	} {
		kind, _, _ := strings.Cut(strings.TrimPrefix(check, "type: "), ",")
		t.Run(kind+"/"+c.why, func(t *testing.T) {
			t.Parallel()
			sick := filepath.Join(t.TempDir(), "sick")
			adapter := standin(t, "*", append(c.flags, "-sick", sick)...)
			if strings.Contains(c.why, "moved") { // its beats are further apart than allowed: it is never well
				sick = ""
			}
			w := newWorld(t, checked(adapter, quick(strings.ReplaceAll(check, "SICK", sick))))
			w.source("a")
			w.start()
			if sick == "" {
				for !strings.HasPrefix(w.phase("a", c.phase).Problem, c.why) {
					w.phase("a", c.phase)
				}
				return
			}
			w.phase("a", "running")
			w.reports(1)
			stuck := func() {
				switch kind { // what is looked for has to be there while it is sick
				case "tick_taken":
					w.tickWaits("a")
				case "run", "output":
					w.run("a", "schedule", time.Now())
				}
			}
			touch(t, sick)
			stuck()
			if got := w.phase("a", c.phase); !strings.HasPrefix(got.Problem, c.why) {
				t.Errorf("the status says %q, want %q", got.Problem, c.why)
			}
			remove(t, sick)
			if kind == "run" || kind == "output" {
				w.pg.Exec(t, "update crawl_runs set status='succeeded'")
			}
			if got := w.phase("a", "running"); got.Problem != "" || got.Restarts != 0 {
				t.Errorf("well again, and yet %+v", got)
			}
			w.none()
			eventually(t, "both are in the log", func() bool {
				return slices.Equal(testenv.Value[[]string](t, w.pg, `select coalesce(array_agg(left(message, 12) order by created_at, id), '{}') from crawl_logs where message like 'crawler is %'`),
					[]string{"crawler is " + c.phase[:1], "crawler is w"})
			})
		})
	}
}

// tickWaits puts a tick into a source's list that its crawler does not take.
func (w *world) tickWaits(code string) {
	w.t.Helper()
	eventually(w.t, "a tick waits", func() bool {
		w.command(control.Command{Action: "tick", Sources: []string{code}})
		return w.rdb.LLen(context.Background(), "crawler:"+code+":start_urls").Val() > 0
	})
}

// A server of the crawler's that answers, does not, and answers again.
func TestChecksByHTTPAndTCP(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)) // nobody else takes it meanwhile
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(l net.Listener) *http.Server {
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path, " is fine") })}
		go func() { _ = s.Serve(l) }()
		return s
	}
	server := answer(l)
	w := newWorld(t,
		checked(standin(t, "http"), quick(fmt.Sprintf("type: http, url: 'http://%s/{code}', body: '/h is fine', action: report", address))),
		checked(standin(t, "tcp"), quick(fmt.Sprintf("type: tcp, address: '%s', action: report", address))))
	w.source("h", "t")
	w.pg.Exec(t, "update sources set adapter = case code when 'h' then 'http' else 'tcp' end")
	r := w.start()
	w.phase("h", "running")
	w.phase("t", "running")
	server.Close()
	for _, code := range []string{"h", "t"} {
		if got := w.phase(code, "unhealthy"); !strings.Contains(got.Problem, "connection refused") {
			t.Errorf("the status says %q", got.Problem)
		}
	}
	if err := testenv.ListenAgain(t, func() error { l, err = net.Listen("tcp", address); return err }); err != nil {
		t.Fatal(err)
	}
	server = answer(l)
	defer server.Close()
	w.phase("h", "running")
	w.phase("t", "running")
	w.reports(2)
	w.none()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
}

// A crawler that is stuck is looked at, ended with cause and evidence, and started again after its backoff; its runs are marked.
func TestAStuckCrawlerIsStartedAnew(t *testing.T) {
	t.Parallel()
	sick := filepath.Join(t.TempDir(), "sick")
	touch(t, sick)
	w := newWorld(t, checked(standin(t, "*", "-sick", sick, "-ticks", "-lines", "3"), quick("type: tick_taken, for: 500ms, action: restart")))
	w.source("a")
	w.start()
	first := w.reports(1)
	run := w.run("a", "schedule", time.Now())
	again := w.reports(1)
	remove(t, sick)
	if alive(first[0].pid) || !alive(again[0].pid) {
		t.Error("the old crawler lives, or the new one does not")
	}
	got := w.phase("a", "running")
	if got.LastExit == nil || got.LastExit.Cause != "stalled" || got.Restarts < 1 {
		t.Errorf("the status says %+v", got)
	}
	eventually(t, "the evidence", func() bool {
		evidence := testenv.Value[string](t, w.pg, `select coalesce(string_agg(evidence, E'\n'), '') from crawl_processes where source='a' and status='exited' and cause='stalled' and last_lines like '%tick_taken: a tick waits for%'`)
		return strings.Contains(evidence, "| line 3\n") && strings.Contains(evidence, fmt.Sprintf("pid %d ", first[0].pid)) && strings.Contains(evidence, ": state ")
	})
	eventually(t, "the run is marked", func() bool {
		return testenv.Value[string](t, w.pg, "select status from crawl_runs where id=$1", run) == "interrupted"
	})
}

// A crawler with a gate gets its first tick once it is well, and a restart is done when the new one is.
func TestACrawlerStartsUntilItIsWell(t *testing.T) {
	t.Parallel()
	sick := filepath.Join(t.TempDir(), "sick")
	touch(t, sick)
	check := fmt.Sprintf("{type: command, command: [test, '!', -e, %q], every: 100ms, after: 1h}", sick)
	w := newWorld(t, checked(standin(t, "*", "-sick", sick), check))
	w.source("a")
	w.start()
	w.reports(1)
	w.phase("a", "starting")
	eventually(t, "the check has looked and failed", func() bool {
		return testenv.Value[int](t, w.pg, "select count(*) from crawl_processes c join crawl_processes p on p.id = c.parent where c.kind='check' and c.status='exited' and c.cause='crashed' and c.exit_code=1 and p.source='a'") == 1
	})
	if n := w.rdb.LLen(t.Context(), "crawler:a:start_urls").Val(); n != 0 {
		t.Error("a tick came before it was well")
	}
	remove(t, sick)
	w.phase("a", "running")
	w.tickOf("a")
	w.must(control.Command{Action: "restart", Sources: []string{"a"}})
	w.phase("a", "running")
	w.reports(1)
}

// Checks that hang, fork and flood harm nobody, and nothing of them is left.
func TestAwkwardCommandsOfChecks(t *testing.T) {
	t.Parallel()
	left := filepath.Join(t.TempDir(), "left")
	check := func(script string) string {
		return fmt.Sprintf("{type: command, command: [sh, -c, %q], every: 100ms, after: 0s, timeout: 300ms, unhealthy: 1, action: report}", script)
	}
	w := newWorld(t,
		checked(standin(t, "hangs"), check("sleep 1000")),
		checked(standin(t, "forks"), check("setsid sleep 1000 & echo $! >>"+left)),
		checked(standin(t, "floods"), check("yes")),
		checked(standin(t, "missing"), "{type: command, command: [/no/such/program], every: 100ms, after: 0s, unhealthy: 1, action: report}"),
		checked(standin(t, "*"), check("true")))
	w.source("hangs", "forks", "floods", "missing", "fine")
	w.pg.Exec(t, "update sources set adapter = code")
	r := w.start()
	for code, why := range map[string]string{"hangs": "it took too long and was ended", "floods": "it took too long and was ended", "missing": "no such"} {
		if got := w.phase(code, "unhealthy"); !strings.Contains(got.Problem, why) {
			t.Errorf("%s: the status says %q", code, got.Problem)
		}
	}
	w.phase("forks", "running")
	w.phase("fine", "running")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(data)) {
		var pid int
		if _, err := fmt.Sscan(field, &pid); err != nil || alive(pid) {
			t.Errorf("pid %q of a check is left", field)
		}
	}
	if n := testenv.Value[int](t, w.pg, "select count(*) from crawl_processes where kind='check'"); n < 5 || n > 15 {
		t.Errorf("%d rows of checks: one each, not one a look", n)
	}
}

// Where so many programs are started that a check's has to wait for its turn, that is no crawler's fault.
func TestACheckThatCouldNotBeStartedTellsNothing(t *testing.T) {
	t.Parallel()
	f := &fleet{program: func(ctx context.Context, _ program.Spec) (program.Result, error) {
		<-ctx.Done()
		return program.Result{}, context.Cause(ctx)
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := f.commands("a", &configs.Adapter{}, "", 1)(ctx, 0, []string{"true"}); !errors.Is(err, health.ErrUnknown) {
		t.Errorf("error %v", err)
	}
}

// counted adds up the looks of all checks with a result, as the metrics show them.
func (r *running) counted(result string) float64 {
	answer := httptest.NewRecorder()
	r.server().Handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	sum := 0.0
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "crawlkeeper_checks_total{") && strings.Contains(line, `result="`+result+`"`) {
			var n float64
			_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
			sum += n
		}
	}
	return sum
}

// Redis or Postgres away is no crawler's fault.
func TestNoVerdictWhileAServerIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, checked(standin(t, "*", "-beat", "50ms"), quick("type: heartbeat, for: 60s, action: restart"), quick("type: tick_taken, for: 60s, action: restart")))
	w.source("a")
	r := w.start()
	w.phase("a", "running")
	w.reports(1)
	pid := w.records()["a"].Pid
	w.redis.Stop(t)
	eventually(t, "twenty looks that tell nothing", func() bool { return r.counted("unknown") > 20 })
	w.redis.Start(t, true)
	before := r.counted("ok")
	eventually(t, "looks that tell something again", func() bool { return r.counted("ok") > before+20 })
	if got := w.phase("a", "running"); got.Pid != pid || got.Restarts != 0 {
		t.Errorf("the status says %+v", got)
	}
}

// A changed list of checks takes effect without a restart.
func TestReloadOfChecks(t *testing.T) {
	t.Parallel()
	plain := standin(t, "*")
	w := newWorld(t, plain)
	w.source("a")
	w.start()
	pid := w.phase("a", "running").Pid
	reload := func(adapter string) {
		t.Helper()
		w.configure("manager: {name: test, status_interval: 100ms, status_ttl: 3s}", adapter)
		w.must(control.Command{Action: "reload"})
	}
	reload(checked(plain, quick("type: command, command: ['false'], action: report")))
	w.phase("a", "unhealthy")
	reload(checked(plain, quick("type: command, command: ['true'], action: report")))
	w.phase("a", "running")
	reload(checked(plain, quick("type: command, command: ['false'], action: report")))
	w.phase("a", "unhealthy")
	reload(plain)
	if got := w.phase("a", "running"); got.Pid != pid || got.Problem != "" {
		t.Errorf("the status says %+v, the pid was %d", got, pid)
	}
}

// Checks that come with a reload while a crawler is ending do not outlive it.
func TestReloadOfChecksWhileACrawlerEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deaf := `  "a": {command: [sh, -c, 'trap "" TERM; sleep 1000'], stop_timeout: 3s}` + "\n"
	w := newWorld(t, deaf, standin(t, "*"))
	w.source("a", "b")
	w.pg.Exec(t, "update sources set adapter = code")
	r := w.start()
	w.phase("a", "running")
	w.phase("b", "running")
	if err := w.rdb.Publish(t.Context(), "crawler:control", `{"action": "stop", "source": "a"}`).Err(); err != nil {
		t.Fatal(err)
	}
	w.phase("a", "stopping")
	check := "health: [" + quick(fmt.Sprintf("type: command, command: [touch, %q]", dir+"/{code}")) + "], "
	w.configure("manager: {name: test, status_interval: 100ms, status_ttl: 3s}",
		strings.Replace(deaf, "{", "{"+check, 1), checked(standin(t, "*"), check[len("health: ["):len(check)-len("], ")]))
	w.must(control.Command{Action: "reload"})
	w.phase("a", "stopped")
	looks := func(n float64) {
		t.Helper()
		before := r.counted("ok")
		eventually(t, "looks at the other one", func() bool { return r.counted("ok") >= before+n })
	}
	looks(2)
	_ = os.Remove(dir + "/a")
	looks(20)
	if _, err := os.Stat(dir + "/a"); err == nil {
		t.Error("a crawler that was stopped is looked at")
	}
	if _, err := os.Stat(dir + "/b"); err != nil {
		t.Error(err)
	}
}

// A key that may not be read says nothing of the others, as one of another type does not.
func TestAKeyThatCannotBeReadIsNoServerThatIsAway(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"WRONGTYPE Operation against a key", "NOPERM No permissions to access a key"} {
		if got, err := seen("", refusal(text)); err != nil || got.Err == nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := seen("", refusal("LOADING Redis is loading")); err == nil {
		t.Error("a server that answers nothing is no server that is away")
	}
}

// What a check's command prints is shown in the status and in logs.
func TestWhatACheckPrintsIsMasked(t *testing.T) {
	t.Parallel()
	if got := lastOf([]byte("a\nno route to postgres://me:hunter2@db/x\n")); got != ": no route to postgres://***@db/x" {
		t.Errorf("%q", got)
	}
}
