package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
	"crawlkeeper/worker/hook"
)

// diary is a file to which hooks append their events, a line each.
type diary struct {
	t    *testing.T
	path string
}

func newDiary(t *testing.T) *diary {
	return &diary{t, filepath.Join(t.TempDir(), "diary")}
}

// hook is one that writes into the diary; more is a script that runs before it does.
func (d *diary) hook(more string) string {
	script, _ := json.Marshal("read -r event || exit 9; " + more + "\nprintf '%s\\n' \"$event\" >>" + d.path)
	return fmt.Sprintf("{command: [sh, -c, %s], timeout: 30s}", script)
}

// all is the configuration of a hook at every point.
func (d *diary) all() string {
	var lines []string
	for _, point := range configs.HookPoints {
		lines = append(lines, fmt.Sprintf("%s: [%s]", point, d.hook("")))
	}
	return "{" + strings.Join(lines, ", ") + "}"
}

func (d *diary) events() (events []hook.Event) {
	data, err := os.ReadFile(d.path)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		var e hook.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			d.t.Fatalf("%s: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

// wait waits for n events of a point, and returns them.
func (d *diary) wait(point string, n int) (found []hook.Event) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%d hooks %s", n, point), func() bool {
		found = nil
		for _, e := range d.events() {
			if e.Hook == point {
				found = append(found, e)
			}
		}
		return len(found) >= n
	})
	return found
}

// of are the points of one process, in the order in which their hooks ran; create first, which waits for nobody and for
// which nobody waits.
func (d *diary) of(process string) (points []string) {
	for _, e := range d.events() {
		if e.Process != nil && e.Process.ID == process {
			points = append(points, e.Hook)
		}
	}
	if i := slices.Index(points, configs.HookCreate); i > 0 {
		points = slices.Insert(slices.Delete(points, i, i+1), 0, configs.HookCreate)
	}
	return points
}

// hooked is an adapter with hooks.
func hooked(t *testing.T, hooks string, flags ...string) string {
	t.Helper()
	return strings.Replace(standin(t, "*", flags...), ": {command", ": {hooks: "+hooks+", command", 1)
}

func TestEveryPointHasItsHooks(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	w := newWorld(t, hooked(t, d.all()))
	w.source("a")
	r := w.start()
	crawler := w.reports(1)[0]
	d.wait("start", 1)
	w.must(control.Command{Action: "restart", Sources: []string{"a"}})
	first := d.wait("final", 1)[0]
	second := w.reports(1)[0]
	if err := syscall.Kill(second.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := d.wait("final", 2)[1]
	w.reports(1)
	d.wait("start", 3)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	stopped := d.wait("final", 3)[2]
	for name, c := range map[string]struct {
		event hook.Event
		want  string
	}{
		"asked to restart":  {first, "create validate acquire start before_stop success final"},
		"killed by another": {killed, "create validate acquire start failure final"},
		"the shutdown":      {stopped, "create validate acquire start before_stop success final"},
	} {
		if got := strings.Join(d.of(c.event.Process.ID), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if first.Process.Pid != crawler.pid || first.Cause != "restarted" || first.Outcome != "success" || first.Repeated || first.Source != "a" ||
		first.Exit == nil || *first.Exit.Code != 0 || first.Manager != "test" || first.Process.EndedAt == nil || first.ID != "final:"+first.Process.ID {
		t.Errorf("the final event: %+v", first)
	}
	if killed.Cause != "signalled" || killed.Exit.Signal != "SIGKILL" || killed.Exit.Code != nil {
		t.Errorf("the final event of one that was killed: %+v", killed)
	}
	w.nothingOwed()
	if n := w.number("select count(*) from crawl_processes where kind = 'hook' and status = 'exited' and cause = 'ok' and parent is not null"); n != len(d.events()) {
		t.Errorf("%d rows of hooks, want %d", n, len(d.events()))
	}
}

// nothingOwed waits until no final hooks are owed to what has ended.
func (w *world) nothingOwed() {
	w.t.Helper()
	eventually(w.t, "that nothing is owed", func() bool {
		return w.number("select count(*) from crawl_processes where final_owed and status = 'exited'") == 0
	})
}

// When final runs nothing of the tree is left; it asks for itself.
func TestFinalRunsWhenTheTreeIsEmpty(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	pids := filepath.Join(t.TempDir(), "pids")
	check := `while read -r pid role; do kill -0 "$pid" 2>/dev/null && event="alive: $pid $role"; done <` + pids
	adapter := hooked(t, "{final: ["+d.hook(check)+"]}", "-setsid", "-double-fork", "-stubborn", "2")
	w := newWorld(t, strings.Replace(adapter, "env: {", "env: {STANDIN_PIDS: "+pids+", ", 1))
	w.source("a")
	r := w.start()
	w.reports(1)
	eventually(t, "the tree", func() bool { data, _ := os.ReadFile(pids); return strings.Count(string(data), "\n") >= 5 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if e := d.wait("final", 1)[0]; len(e.Evidence) != 1 || !strings.HasPrefix(e.Evidence[0], "it left ") {
		t.Errorf("evidence: %q", e.Evidence)
	}
}

// A process is created whether or not it can be started, and final runs for it.
func TestStartsThatNeverHappened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hooks, command string
		want, why      string
	}{
		"refused":           {`validate: [{command: [sh, -c, "echo nothing; echo no proxy is free >&2; exit 1"]}], acquire: [{command: [touch, FILE]}]`, "sleep", "create failure final", "the hook validate did not allow it: no proxy is free"},
		"not acquired":      {`acquire: [{command: [sh, -c, "exit 3"]}]`, "sleep", "create failure final", "the hook acquire did not allow it: exit 3"},
		"a missing hook":    {`validate: [{command: [/no/such/hook]}]`, "sleep", "create failure final", "the hook validate did not allow it: start /no/such/hook: no such file"},
		"one that hangs":    {`validate: [{command: [sleep, "1000"], timeout: 1s}]`, "sleep", "create failure final", "the hook validate did not allow it: it took too long"},
		"a missing crawler": {`acquire: [{command: ["true"]}]`, "/no/such/crawler", "create failure final", "start /no/such/crawler: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDiary(t)
			file := filepath.Join(t.TempDir(), "file")
			w := newWorld(t, fmt.Sprintf("  \"*\": {command: [%s, \"1000\"], backoff: {min: 1h, max: 1h}, hooks: {create: [%s], start: [%s], success: [%[3]s], cancel: [%[3]s], failure: [%[3]s], final: [%[3]s], %s}}\n",
				c.command, d.hook(""), d.hook(""), strings.ReplaceAll(c.hooks, "FILE", file)))
			w.source("a")
			w.start()
			e := d.wait("final", 1)[0]
			if got := strings.Join(d.of(e.Process.ID), " "); got != c.want || !strings.HasPrefix(e.Why, c.why) || e.Cause != "start_failed" || e.Outcome != "failure" || e.Exit != nil {
				t.Errorf("%s: %+v", got, e)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("a later hook ran although an earlier one refused")
			}
			if got := w.phase("a", "cooling").LastExit; got == nil || got.Cause != "start_failed" {
				t.Errorf("last exit %+v", got)
			}
			w.nothingOwed()
		})
	}
}

// A start that is given up while its hooks run is no failure.
func TestAStartThatIsGivenUp(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	w := newWorld(t, hooked(t, "{create: ["+d.hook("")+"], acquire: [{command: [sleep, \"1000\"], timeout: 1h}], failure: ["+d.hook("")+"], cancel: ["+d.hook("")+"], final: ["+d.hook("")+"]}"))
	w.source("a")
	w.start()
	d.wait("create", 1)
	w.phase("a", "starting")
	w.must(control.Command{Action: "stop", Sources: []string{"a"}})
	e := d.wait("final", 1)[0]
	if got := strings.Join(d.of(e.Process.ID), " "); got != "create cancel final" || e.Cause != "stopped" {
		t.Errorf("%s: %+v", got, e)
	}
	w.none()
}

// Whatever hooks do that nobody waits for, the crawler starts, runs and starts again, and nothing of them is left.
func TestBadHooksHarmOnlyThemselves(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	bad := []string{
		`{command: [sh, -c, "sleep 1000"], timeout: 1s}`,
		`{command: [sh, -c, "setsid sleep 1000 & setsid sleep 1000 & exit 0"]}`,
		`{command: [sh, -c, "head -c 100000000 /dev/zero"], timeout: 1m}`,
		`{command: [sh, -c, "exit 1"]}`, `{command: [/no/such/hook]}`, `{webhook: "http://127.0.0.1:1/", retries: 0}`,
	}
	hooks := fmt.Sprintf("{create: [%[1]s], start: [%[1]s], before_stop: [%[1]s], success: [%[1]s], final: [%[1]s, %[2]s]}", strings.Join(bad, ", "), d.hook(""))
	w := newWorld(t, hooked(t, hooks))
	w.source("a")
	r := w.start()
	w.reports(1)
	w.phase("a", "running")
	w.must(control.Command{Action: "restart", Sources: []string{"a"}})
	w.reports(1)
	if e := d.wait("final", 1)[0]; e.Outcome != "success" && e.Outcome != "cancel" { // before_stop takes half of its time
		t.Errorf("%+v", e)
	}
	eventually(t, "they are counted", func() bool {
		text := scrape(t, r)
		return strings.Contains(text, `crawlkeeper_hooks_total{hook="create",result="failed"} 6`) &&
			strings.Contains(text, `crawlkeeper_hooks_total{hook="create",result="timeout"} 2`) &&
			strings.Contains(text, `crawlkeeper_hooks_total{hook="final",result="ok"} 3`)
	})
	prefix := w.fingerprint()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if left := testenv.Bearing(t, prefix); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// What a shutdown cuts off is run by the next manager, and marked.
func TestAShutdownCutsFinalOff(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	begun := filepath.Join(t.TempDir(), "begun")
	slow := d.hook("echo >>" + begun + "; test -e " + begun + ".on || sleep 1000")
	w := newWorld(t, hooked(t, "{final: ["+strings.Replace(slow, "30s", "1h", 1)+"]}"))
	w.source("a", "b")
	r := w.start()
	w.reports(2)
	began := time.Now()
	r.stop()
	eventually(t, "final has begun", func() bool { data, _ := os.ReadFile(begun); return len(data) == 2 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*(w.stopWithin()) {
		t.Errorf("the shutdown took %s", took)
	}
	if n := w.number("select count(*) from crawl_processes where final_owed and status = 'exited'"); n != 2 {
		t.Fatalf("final is owed for %d processes, want 2", n)
	}
	if err := os.WriteFile(begun+".on", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := w.start()
	for _, e := range d.wait("final", 2) {
		if !e.Repeated || e.Cause != "shutdown" || e.Outcome != "success" || e.ID != "final:"+e.Process.ID {
			t.Errorf("%+v", e)
		}
	}
	w.nothingOwed()
	w.reports(2)
	if err := second.end(); err != nil {
		t.Fatal(err)
	}
	for _, e := range d.wait("final", 4)[2:] {
		if e.Repeated {
			t.Errorf("it ran for the first time, and is marked: %+v", e)
		}
	}
}

func (w *world) stopWithin() time.Duration {
	conf, err := configs.Load(w.conf, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return conf.StopWithin()
}

// Final hooks that are owed where the configuration has none any more are dropped, and those of a source that is gone are the
// fleet's.
func TestOwedToNobody(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	w := newWorld(t, standin(t, "*"))
	insert := `insert into crawl_processes (id, source, kind, manager, host, boot_id, command, status, queued_at, started_at, ended_at, cause, final_owed, pid)
		values (gen_random_uuid(), $1, 'crawler', $2, 'h', 'b', '["x"]', $3, now(), now(), now(), 'exited', true, 7)`
	w.source("a")
	w.pg.Exec(t, insert, "a", "test", "exited")
	r := w.start()
	w.nothingOwed()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	w.configure("manager: {name: test, status_interval: 100ms, status_ttl: 3s}\nhooks: {final: ["+d.hook("")+"]}", standin(t, "*"))
	w.pg.Exec(t, insert, "gone", "test", "running")
	w.pg.Exec(t, insert, "theirs", "another", "exited")
	w.pg.Exec(t, insert, "a", "another", "running")
	w.start()
	got := map[string]string{}
	for _, e := range d.wait("final", 2) {
		got[e.Source] = fmt.Sprint(e.Repeated, e.Cause, e.Outcome)
	}
	if len(got) != 2 || got["gone"] != "truemanager_lost" || got["a"] != "truemanager_lost" {
		t.Errorf("%v", got)
	}
	eventually(t, "one is left", func() bool {
		return w.number("select count(*) from crawl_processes where final_owed and source = 'theirs'") == 1 &&
			w.number("select count(*) from crawl_processes where final_owed and host = 'h'") == 1
	})
}

// Whoever judges a crawler makes hooks run and alerts be told, over a signed webhook too.
func TestAJudgedCrawler(t *testing.T) {
	t.Parallel()
	type request struct {
		body      []byte
		signature string
		stamp     string
	}
	requests := make(chan request, 9)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{body, r.Header.Get("X-Crawlkeeper-Signature"), r.Header.Get("X-Crawlkeeper-Timestamp")}
	}))
	defer server.Close()
	d := newDiary(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.configure(fmt.Sprintf("manager: {name: test, status_interval: 100ms, status_ttl: 3s}\nhooks: {unhealthy: [{webhook: %q, secret_file: %q}]}\nalerts: [{when: unwell, hooks: [%s]}]",
		server.URL, secret, d.hook("")), hooked(t, "{healthy: ["+d.hook("")+"], unhealthy: ["+d.hook("")+"]}"))
	w.source("a")
	r := w.start()
	w.reports(1)
	w.phase("a", "running")
	judge := func(phase worker.Phase, why string) {
		r.ask(t.Context(), func() {
			a := r.fleet.sources["a"].worker
			a.Judge(worker.Verdict{ProcessID: a.Snapshot().ProcessID, Phase: phase, Why: why})
		})
		w.phase("a", string(phase))
	}
	judge(worker.Unhealthy, "no answer")
	d.wait("unhealthy", 1)
	judge(worker.Stalled, "no tick taken")
	d.wait("unhealthy", 2)
	judge(worker.Running, "")
	d.wait("healthy", 1)
	eventually(t, "all of it is told", func() bool { return len(d.events()) == 5 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	var got []string
	ids := map[string]bool{}
	for _, e := range d.events() {
		ids[e.ID] = true
		if e.Alert != nil {
			got = append(got, e.Alert.When+" "+e.Alert.State)
			continue
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Hook, e.Phase, e.Why)))
	}
	slices.Sort(got)
	want := []string{"healthy running", "unhealthy stalled no tick taken", "unhealthy unhealthy no answer", "unwell begins", "unwell over"}
	if !slices.Equal(got, want) || len(ids) != len(want) {
		t.Errorf("%q, %d ids", got, len(ids))
	}
	if len(requests) != 2 {
		t.Fatalf("%d requests", len(requests))
	}
	if one := <-requests; one.signature != hook.Sign("hunter2", one.stamp, one.body) || !strings.Contains(string(one.body), "no answer") {
		t.Errorf("%s, signed %s", one.body, one.signature)
	}
}

// Where no more fit, final hooks are put off, and others dropped and counted.
func TestAFullQueue(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	w := newWorld(t, hooked(t, "{failure: ["+d.hook("")+"], final: ["+d.hook("")+"]}"))
	w.source("a")
	r := w.start()
	crawler := w.reports(1)[0]
	w.phase("a", "running")
	release := make(chan struct{})
	for range hooksBound {
		r.hooks.queue.Put("others", func(ctx context.Context) { <-release })
	}
	if err := syscall.Kill(crawler.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one is dropped", func() bool {
		return strings.Contains(scrape(t, r), `crawlkeeper_hooks_total{hook="failure",result="dropped"} 1`)
	})
	close(release)
	if e := d.wait("final", 1)[0]; e.Repeated || e.Cause != "signalled" {
		t.Errorf("%+v", e)
	}
	w.nothingOwedOf(crawler.pid)
	if slices.ContainsFunc(d.events(), func(e hook.Event) bool { return e.Hook == "failure" }) {
		t.Error("what was dropped ran")
	}
}

func (w *world) nothingOwedOf(pid int) {
	w.t.Helper()
	eventually(w.t, "that nothing is owed to "+strconv.Itoa(pid), func() bool {
		return w.number("select count(*) from crawl_processes where final_owed and pid = "+strconv.Itoa(pid)) == 0
	})
}

// Without hooks nothing is there for them, and no row says that something is owed.
func TestNoHooksCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	r := w.start()
	w.reports(1)
	w.phase("a", "running")
	r.ask(t.Context(), func() {
		if s := r.fleet.sources["a"]; s.hooked.Load() != nil {
			t.Error("there is a plan")
		}
	})
	if n := r.hooks.queue.Len(); n != 0 {
		t.Errorf("%d jobs", n)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if n := w.number("select count(*) from crawl_processes where final_owed or kind <> 'crawler'"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// A crawler that its policy lets end with 0 has succeeded.
func TestAnEndThatThePolicyExpects(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	w := newWorld(t, strings.Replace(restarting(t, "*", "{policy: on-failure}", "-after", "0s"), ": {command", ": {hooks: "+d.all()+", command", 1))
	w.source("a")
	w.start()
	e := d.wait("final", 1)[0]
	if got := strings.Join(d.of(e.Process.ID), " "); got != "create validate acquire start success final" || e.Outcome != "success" || e.Cause != "exited" {
		t.Errorf("%s: %+v", got, e)
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	h := &hooks{}
	code := 0
	for _, c := range []struct {
		cause, signal, want string
		pid                 int
		status              string
	}{
		{"exited", "", "failure", 1, sql.ProcessExited},
		{"crashed", "", "failure", 1, sql.ProcessExited},
		{"oom", "SIGKILL", "failure", 1, sql.ProcessExited},
		{"start_failed", "", "failure", 0, sql.ProcessExited},
		{"stalled", "", "failure", 1, sql.ProcessExited},
		{"limit", "SIGKILL", "failure", 1, sql.ProcessExited},
		{"stopped", "", "success", 1, sql.ProcessExited},
		{"restarted", "SIGTERM", "success", 1, sql.ProcessExited},
		{"shutdown", "", "success", 1, sql.ProcessExited},
		{"stopped", "SIGKILL", "cancel", 1, sql.ProcessExited},
		{"shutdown", "", "cancel", 0, sql.ProcessExited},
		{"manager_lost", "", "", 1, sql.ProcessExited},
		{"", "", "", 1, sql.ProcessRunning},
	} {
		row := sql.Process{Cause: c.cause, Signal: c.signal, Pid: c.pid, Status: c.status, ExitCode: &code}
		if got := h.event(&plan{}, "final", row).Outcome; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func (w *world) number(query string) int {
	w.t.Helper()
	return testenv.Value[int](w.t, w.pg, query)
}

// scrape reads the metrics of a manager.
func scrape(t *testing.T, r *running) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	status.Handler(status.HandlerOptions{Metrics: r.metrics}).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return recorder.Body.String()
}

// flushed is a journal that says when it has committed.
type flushed struct {
	journal
	committed chan struct{}
}

func (f flushed) Flush(ctx context.Context) error {
	select {
	case <-f.committed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A start waits until it is written down that final hooks are owed, but an outage holds up none.
func TestAStartWaitsForItsRow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		point  string
		commit time.Duration
		want   time.Duration
	}{
		"committed": {configs.HookFinal, 3 * time.Millisecond, 3 * time.Millisecond},
		"an outage": {configs.HookFinal, time.Hour, rowLimit},
		"no final":  {configs.HookSuccess, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j := flushed{committed: make(chan struct{})}
				time.AfterFunc(c.commit, func() { close(j.committed) })
				h := newHooks(nil, j, nil, identity{}, testenv.Logger(t))
				o := &observer{f: &fleet{hooks: h}, plan: &plan{hooks: configs.Hooks{c.point: {{}}}}}
				began := time.Now()
				if err := o.Before(t.Context(), worker.Incarnation{}); err != nil || time.Since(began) != c.want {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				time.Sleep(time.Hour)
			})
		})
	}
}
