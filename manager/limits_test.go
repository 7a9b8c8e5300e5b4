package manager

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker"
	"crawlkeeper/worker/limits"
	"crawlkeeper/worker/process"
)

// greedy is an adapter whose crawler is a shell; what is greedy is its child.
func greedy(t *testing.T, name, limits, script string, flags ...string) string {
	t.Helper()
	argv, err := json.Marshal(append([]string{"sh", "-c", script + ` "$0" "$@" & wait; wait`, testenv.StandIn(t), "-code", "{code}"}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  %q: {command: %s, limits: {%s}, pass_urls: true, stop_timeout: 10m, backoff: {min: 1h, max: 1h}, env: {STANDIN_LIST: starts}}\n", name, argv, limits)
}

// Each of these trees goes beyond another limit, through the real program; who keeps to his is left alone.
func TestATreeBeyondALimitIsEnded(t *testing.T) {
	t.Parallel()
	const plenty = "memory: 2GiB, processes: 500, open_files: 500, temp_size: 1GiB, max_age: 1h, output_rate: 1GiB"
	deaf := `trap "" TERM;` // it gets two seconds, not the ten minutes of its adapter
	w := newWorld(t,
		greedy(t, "memory", "memory: 100MiB", deaf, "-allocate", "200"),
		greedy(t, "processes", "processes: 30", deaf, "-children", "20"),
		greedy(t, "open_files", "open_files: 80", "", "-open-files", "70"),
		greedy(t, "temp_size", "temp_size: 4MiB", "", "-fill", fmt.Sprint(8<<20)),
		greedy(t, "output_rate", "output_rate: 1KiB", "", "-print-every", "1ms"),
		greedy(t, "modest", plenty, "", "-allocate", "50", "-children", "3", "-open-files", "20", "-fill", fmt.Sprint(1<<20), "-lines", "100"),
		standin(t, "*"))
	beyond := map[string]string{
		"memory": "memory: 2% MiB of 100 MiB; most of it standin (pid %) 2% MiB", "processes": "processes: % of 30; most of them %",
		"open_files": "open_files: % of 80; most of them standin (pid %", "temp_size": "temp_size: 8 MiB of 4 MiB; the largest file is dump, 8 MiB",
		"output_rate": "output_rate: % KiB in %, of 1 KiB a second over a minute",
	}
	w.source("memory", "processes", "open_files", "temp_size", "output_rate", "modest", "none")
	w.pg.Exec(t, "update sources set adapter = code")
	d := w.daemon(w.spawner(), "first", ports(t, 1)[0])
	w.reports(7)
	modest, none := w.phase("modest", "running").Pid, w.phase("none", "running").Pid
	for code, why := range beyond {
		eventually(t, code+" was ended, with the evidence", func() bool {
			return testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where source=$1 and status='exited' and cause='limit' and last_lines like '%'||$2`, code, why) == 1
		})
		w.phase(code, "cooling")
	}
	records := w.records()
	if records["modest"].Pid != modest || records["none"].Pid != none || records["modest"].Phase != "running" || modest == 0 {
		t.Errorf("who keeps to the limits was touched: %+v, %+v", records["modest"], records["none"])
	}
	shown := metrics(t, d.addr)
	for code := range beyond {
		if !strings.Contains(shown, fmt.Sprintf("crawlkeeper_limits_total{limit=%q} 1\n", code)) {
			t.Errorf("%s is not counted", code)
		}
	}
	if !strings.Contains(shown, `crawlkeeper_tree_memory_bytes{source="modest"} `) {
		t.Error("the memory of a tree is not shown")
	}
}

func metrics(t *testing.T, addr string) string {
	t.Helper()
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Of age are two: the one without a run is started anew, the other only when it is overdue. Neither waits for the backoff.
func TestACrawlerOfAgeIsStartedAnewBetweenTwoRuns(t *testing.T) {
	t.Parallel()
	aged := strings.Replace(standin(t, "*"), "backoff: {min: 200ms, max: 1s", "limits: {max_age: 1h}, backoff: {min: 1h, max: 1h", 1)
	w := newWorld(t, aged)
	w.source("idle", "busy")
	r := w.start()
	w.reports(2)
	for _, code := range []string{"idle", "busy"} {
		w.phase(code, "running")
	}
	w.pg.Exec(t, `insert into crawl_runs(source_code,status,trigger,started_at) values ('busy','running','schedule',now()), ('idle','running','backfill',now()), ('idle','succeeded','schedule',now())`)
	eventually(t, "postgres answers", r.postgresUp.Load)
	look := func(after time.Duration, code string) {
		sources, _ := query(t.Context(), r.fleet, func() map[string]watched {
			s := r.fleet.sources[code]
			return map[string]watched{code: {s.worker, s.output, s.limits}}
		})
		trees, counted := r.trees(sources)
		if len(trees) != 1 || counted {
			t.Fatalf("%d trees are looked at, counted %v", len(trees), counted)
		}
		r.renew(t.Context(), time.Now().Add(after), trees, sources)
	}
	look(50*time.Minute, "idle")
	look(70*time.Minute, "busy") // of age, but it has a run
	look(70*time.Minute, "idle")
	if got := w.reports(1); got[0].code != "idle" {
		t.Errorf("%v was started anew", got)
	}
	eventually(t, "it runs again", func() bool {
		s := r.records(t, "idle")
		return s.Phase == worker.Running && s.Restarts == 1 && s.LastExit.Cause == worker.Restarted
	})
	if s := r.records(t, "busy"); s.Restarts != 0 || s.Phase != worker.Running {
		t.Errorf("a crawler with an open run was not waited for: %+v", s)
	}
	look(80*time.Minute, "busy") // overdue
	eventually(t, "the other one too", func() bool { return r.records(t, "busy").Restarts == 1 })
	eventually(t, "who asked", func() bool {
		return testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where cause='restarted' and asked_by='max_age' and last_lines like 'max_age: 1h%of 1h0m0s'`) == 2
	})
	if n := testenv.Value[int](t, w.pg, `select count(*) from crawl_logs where level='ERROR'`); n != 0 {
		t.Errorf("%d errors for what was planned", n)
	}
}

func (r *running) records(t *testing.T, code string) *worker.Snapshot {
	t.Helper()
	s, _ := query(t.Context(), r.fleet, func() *worker.Snapshot { return r.fleet.sources[code].worker.Snapshot() })
	return s
}

func TestLimitsOfAnAdapter(t *testing.T) {
	t.Parallel()
	if limitsOf(&configs.Adapter{Limits: configs.Limits{CPU: 1, CPUs: "0"}}) != nil {
		t.Error("what the kernel holds alone is watched")
	}
	a := configs.Adapter{Command: []string{"x"}, Limits: configs.Limits{
		Memory: 1 << 30, CPU: 0.5, CPUs: "0-1", Processes: 9, OpenFiles: 64, TempSize: 5, MaxAge: time.Hour, OutputRate: 7,
	}}
	if got := *limitsOf(&a); got != (limits.Limits{Memory: 1 << 30, Processes: 9, OpenFiles: 64, TempSize: 5, MaxAge: time.Hour, OutputRate: 7}) {
		t.Errorf("watched: %+v", got)
	}
	spec := workerSpec("a", &a, "", nil).Process
	if spec.Quota != (process.Quota{Memory: 1 << 30, CPU: 0.5, Tasks: 9}) || len(spec.CPUs) != 2 || spec.Rlimits["nofile"] != (process.Rlimit{Soft: 64, Hard: 64}) {
		t.Errorf("held: %+v", spec)
	}
	a.Rlimits = map[string]string{"nofile": "100:200"}
	if got := workerSpec("a", &a, "", nil).Process.Rlimits["nofile"]; got != (process.Rlimit{Soft: 100, Hard: 200}) {
		t.Errorf("what rlimits say does not win: %+v", got)
	}
	if got := workerSpec("a", &configs.Adapter{Command: []string{"x"}}, "", nil).Process; got.Quota != (process.Quota{}) || got.CPUs != nil || got.Rlimits != nil {
		t.Errorf("limits that nobody asked for: %+v", got)
	}
	watchedOnly := a
	watchedOnly.Limits.MaxAge, watchedOnly.Limits.TempSize, watchedOnly.Limits.OutputRate = 0, 1, 2
	held := a
	held.Limits.Memory++
	if specKey("a", &a) != specKey("a", &watchedOnly) || specKey("a", &a) == specKey("a", &held) {
		t.Error("only what a process has from its start on needs another process")
	}
}

func TestAFleetOfAgeIsNotStartedAnewAtOnce(t *testing.T) {
	t.Parallel()
	var aged []limits.Breach
	for i := range 200 {
		aged = append(aged, limits.Breach{Source: fmt.Sprint(i), Overdue: i < 2})
	}
	idle := func(code string) bool { return code == "7" || code == "9" }
	for all, want := range map[int]string{200: "0 1 7 9", 149: "0 1", 3: "0"} {
		var got []string
		for _, b := range chooseAged(slices.Clone(aged), idle, all) {
			got = append(got, b.Source)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of %d: %v, want %s", all, got, want)
		}
	}
}
