package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
	"crawlkeeper/worker"
	"crawlkeeper/worker/borrowed"
	"crawlkeeper/worker/hook"
	"crawlkeeper/worker/process"
)

// longAgo is older than the default of janitor.min_age.
var longAgo = time.Now().Add(-3 * time.Hour)

// leftovers leave things behind for the manager of a world.
type leftovers struct {
	*world
	root, logs, shared string // the manager's directory, that of log files, and one in which crawlers may register files
}

// age makes files old.
func age(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if there(p) {
			must(t, os.Chtimes(p, longAgo, longAgo))
		}
	}
}

// leftWorld is a world whose crawlers may register files and write log files.
func leftWorld(t *testing.T, minAge string) *leftovers {
	t.Helper()
	l := &leftovers{logs: t.TempDir(), shared: t.TempDir()}
	t.Cleanup(func() { _ = os.RemoveAll(l.root) }) // after the manager has ended
	l.world = newWorld(t)
	adapter := strings.TrimSuffix(strings.TrimSpace(standin(t, "*")), "}")
	l.configure(fmt.Sprintf("manager: {name: test, status_interval: 100ms, status_ttl: 3s}\nkeep: {processes: 24h}\njanitor: {min_age: %s}", minAge),
		fmt.Sprintf("  %s, output: {to: file, dir: %q}, track: {enabled: true, roots: [%q]}}\n", adapter, l.logs, l.shared))
	return l
}

// temp leaves a directory for temporary files, and with a source a list with a file on it.
func (l *leftovers) temp(source string) (string, string) {
	l.t.Helper()
	place := borrowed.Place{Root: l.root, ID: uuid.NewString()}
	must(l.t, place.MakeTemp(nil))
	file := ""
	if source != "" {
		file = filepath.Join(l.shared, place.ID)
		must(l.t, os.WriteFile(file, nil, 0o600))
		must(l.t, place.Lend(&borrowed.Terms{Process: place.ID, Source: source, Roots: []string{l.shared}}, nil))
		line, err := json.Marshal(borrowed.Entry{Kind: borrowed.File, Name: file})
		must(l.t, err)
		must(l.t, os.WriteFile(place.List(), append(line, '\n'), 0o600))
	}
	age(l.t, place.Paths()...)
	return place.Temp(), file
}

// deleted leaves ticks, a key, a due time and a log file of a source that was seen to be deleted.
func (l *leftovers) deleted(codes ...string) {
	l.t.Helper()
	ctx := l.t.Context()
	pipe := l.rdb.Pipeline()
	for _, code := range codes {
		pipe.RPush(ctx, "crawler:"+code+":start_urls", "{}")
		pipe.Set(ctx, "crawler:"+code+":requests", 1, 0)
		pipe.HSet(ctx, "crawler:last_due", code, time.Now().UTC().Format(dueLayout))
		log := filepath.Join(l.logs, code+".log")
		must(l.t, os.WriteFile(log, []byte("x"), 0o600))
		age(l.t, log)
	}
	_, err := pipe.Exec(ctx)
	must(l.t, err)
	l.pg.Exec(l.t, "insert into crawl_deleted_sources(code, at) select unnest($1::text[]), $2 on conflict (code) do update set at = excluded.at", codes, longAgo)
}

// rows leave rows of processes that are open, of a manager of this name.
func (l *leftovers) rows(n int) {
	l.pg.Exec(l.t, `insert into crawl_processes(id,source,kind,manager,host,boot_id,command,status,queued_at)
		select gen_random_uuid(),'gone','crawler','test','elsewhere','','[]','running',$2 from generate_series(1,$1::int)`, n, longAgo)
}

func (w *world) janitor(remove bool) control.Cleaning {
	w.t.Helper()
	r := w.must(control.Command{Action: control.ActionJanitor, Remove: remove})
	if r.Janitor == nil || len(r.Janitor.Problems) > 0 {
		w.t.Fatalf("%+v", r)
	}
	return *r.Janitor
}

// found counts kinds.
func found(c control.Cleaning) map[string]int {
	out := map[string]int{}
	for kind, n := range c.Kinds {
		out[kind] = n.Found
	}
	return out
}

func TestJanitor(t *testing.T) {
	t.Parallel()
	l := leftWorld(t, "1h")
	l.source("alive", "gone")
	r := l.start()
	pids := l.reports(2)
	l.root = r.spawner.TempRoot()
	if got := found(l.janitor(true)); len(got) > 0 {
		t.Errorf("at the beginning: %v", got)
	}
	l.pg.Exec(t, "delete from sources where code = 'gone'")
	eventually(t, "the manager has seen it deleted", func() bool {
		return testenv.Value[int](t, l.pg, "select count(*) from crawl_deleted_sources where code='gone'") == 1
	})
	l.deleted("gone", "moved")
	l.pg.Exec(t, "insert into sources(code,collector) values ('moved','shops')")
	temp, _ := l.temp("")
	ofGone, file := l.temp("gone")
	ofAlive, fileOfAlive := l.temp("alive")
	young := borrowed.Place{Root: l.root, ID: uuid.NewString()}
	must(t, young.MakeTemp(nil))
	for _, live := range []string{"alive", "nobody"} { // of nobody it was never seen that it was deleted
		l.rdb.RPush(t.Context(), "crawler:"+live+":start_urls", "{}")
		l.rdb.HSet(t.Context(), "crawler:last_due", live, "x")
		must(t, os.WriteFile(filepath.Join(l.logs, live+".log"), nil, 0o600))
		age(t, filepath.Join(l.logs, live+".log"))
	}
	l.rows(2)
	l.pg.Exec(t, `insert into crawl_runs(source_code,status,trigger,started_at) values
			('alive','running','schedule',$1), ('alive','running','backfill',$1), ('alive','running','schedule',now())`, longAgo.Add(-time.Hour))
	// Our own processes are old, as far as their rows and directories tell.
	l.pg.Exec(t, "update crawl_processes set queued_at = $1, started_at = $1 where status = 'running'", longAgo)
	entries, err := os.ReadDir(l.root)
	must(t, err)
	for _, e := range entries {
		if e.Name() != young.ID {
			age(t, filepath.Join(l.root, e.Name()))
		}
	}

	want := map[string]int{leakTemp: 1, leakList: 2, leakLog: 1, leakTick: 1, leakKey: 1, leakDue: 1, leakRow: 2, leakRun: 2}
	eventually(t, "it is found", func() bool { // a run is left open once its source is surely settled
		return found(l.janitor(false))[leakRun] == 1
	})
	// By now the rows that were old at the start were looked for, and the second mark for the source that is gone was made.
	want[leakOld] = 7
	l.pg.Exec(t, "insert into crawl_runs(source_code,status,trigger,started_at) values ('gone','running','schedule',$1)", longAgo.Add(-time.Hour))
	l.pg.Exec(t, `insert into crawl_processes(id,source,kind,manager,host,boot_id,command,status,queued_at,ended_at)
			select gen_random_uuid(),'alive','crawler','','','','[]','exited',now()-interval '4 days',now()-interval '3 days' from generate_series(1,7)`)
	if diff := cmp.Diff(want, found(l.janitor(false))); diff != "" {
		t.Error(diff)
	}
	if !there(temp) || !there(file) || l.rdb.Exists(t.Context(), "crawler:gone:start_urls").Val() != 1 {
		t.Error("what was only to be reported is gone")
	}
	c := l.janitor(true)
	if diff := cmp.Diff(want, found(c)); diff != "" {
		t.Error(diff)
	}
	for _, leak := range c.Leaks {
		kept := leak.Kind == leakList && leak.Source == "alive"
		if leak.Removed == kept || kept && !strings.Contains(leak.Why, "runs") {
			t.Errorf("%+v", leak)
		}
	}
	for path, want := range map[string]bool{
		temp: false, ofGone: false, file: false, ofAlive: true, fileOfAlive: true, young.Temp(): true, filepath.Join(l.logs, "gone.log"): false,
		filepath.Join(l.logs, "alive.log"): true, filepath.Join(l.logs, "nobody.log"): true, filepath.Join(l.logs, "moved.log"): true,
	} {
		if there(path) != want {
			t.Errorf("%s is there: %v", path, !want)
		}
	}
	for _, code := range []string{"alive", "nobody", "moved"} {
		if l.rdb.Exists(t.Context(), "crawler:"+code+":start_urls").Val() != 1 || !l.rdb.HExists(t.Context(), "crawler:last_due", code).Val() {
			t.Errorf("what Redis has of %s is gone", code)
		}
	}
	r.ask(t.Context(), func() {
		if last, kept := r.fleet.lost["gone"]; kept {
			t.Errorf("what is forgotten in Redis is known here: the last due time %v", last)
		}
	})
	if n := testenv.Value[int](t, l.pg, "select count(*) from crawl_runs where status = 'running'"); n != 2 {
		t.Errorf("%d runs are running, want the backfill and the young one", n)
	}
	for _, p := range pids {
		if p.code == "alive" && !alive(p.pid) {
			t.Error("a crawler was ended")
		}
	}
	if diff := cmp.Diff(map[string]int{leakList: 1}, found(l.janitor(true))); diff != "" {
		t.Errorf("after that: %s", diff)
	}
	l.must(control.Command{Action: control.ActionStop, All: true})
	l.janitor(true)
	if there(ofAlive) || there(fileOfAlive) {
		t.Error("what was left is there although no crawler of its source runs")
	}
	if n := testenv.Value[int](t, l.pg, "select count(*) from crawl_deleted_sources where code='gone'"); n != 0 {
		t.Error("a source of which nothing is left stays on the list")
	}
}

// What only looks as if it were left is left alone: a row of a start that a hook holds up, one of a manager of the same name with
// another collector, and a source that was deleted whose log file is still young.
func TestJanitorLeavesAloneWhatIsNotLeft(t *testing.T) {
	t.Parallel()
	l := leftWorld(t, "1s")
	l.write(strings.Replace(l.text, `"*": {`, `"*": {hooks: {acquire: [{command: [sleep, "1000"], timeout: 1h}]}, `, 1))
	l.source("a", "gone")
	l.pg.Exec(t, "insert into sources(code,collector) values ('theirs','shops')")
	l.pg.Exec(t, `insert into crawl_processes(id,source,kind,manager,host,boot_id,command,status,queued_at)
		values (gen_random_uuid(),'theirs','crawler','test','elsewhere','','[]','running',$1)`, longAgo)
	r := l.start()
	eventually(t, "a row is old enough", func() bool {
		return testenv.Value[int](t, l.pg, "select count(*) from crawl_processes where source='a' and kind='crawler' and status='queued' and queued_at < now() - interval '3 s'") == 1
	})
	start, _ := process.StartTime(os.Getpid())
	l.pg.Exec(t, `insert into crawl_processes(id,source,kind,manager,host,boot_id,command,status,queued_at,pid,start_time)
		values (gen_random_uuid(),'','hook','test',$1,$2,'[]','running',$3,$4,$5)`, r.fleet.identity.Host, process.BootID(), longAgo, os.Getpid(), start)
	l.pg.Exec(t, "delete from sources where code = 'gone'")
	eventually(t, "it was deleted long enough ago", func() bool {
		return testenv.Value[int](t, l.pg, "select count(*) from crawl_deleted_sources where code='gone' and at < now() - interval '1 s'") == 1
	})
	log := filepath.Join(l.logs, "gone.log")
	must(t, os.WriteFile(log, nil, 0o600))
	must(t, os.Chtimes(log, time.Now(), time.Now().Add(time.Hour)))
	if got := found(l.janitor(true)); got[leakRow] != 0 || got[leakLog] != 0 {
		t.Errorf("%v", got)
	}
	if n := testenv.Value[int](t, l.pg, "select count(*) from crawl_processes where kind='crawler' and source in ('a','theirs') and status='exited'"); n != 0 {
		t.Errorf("%d rows were closed", n)
	}
	must(t, os.Chtimes(log, longAgo, longAgo))
	if l.janitor(true); there(log) {
		t.Error("the log file was forgotten")
	}
}

// A process that bears our number and belongs to no tree is ended; one of a living tree, and a stranger, are not.
func TestJanitorEndsProcesses(t *testing.T) {
	t.Parallel()
	l := leftWorld(t, "1s")
	l.source("a")
	r := l.start()
	pid := l.reports(1)[0].pid
	if w := r.spawner.Ways(); !w.Fingerprint {
		t.Log("nothing bears a number here")
		return
	}
	s := l.spawner()
	start := func(number uint64) *process.Process {
		p, err := s.Start(context.Background(), process.Spec{ID: uuid.NewString(), Argv: []string{"sleep", "1000"}, Env: os.Environ()})
		must(t, err)
		t.Cleanup(func() {
			if _, err := p.Sweep(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if number != 0 {
			must(t, unix.Prlimit(p.Pid(), unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: number, Max: unix.RLIM_INFINITY}, nil))
		}
		return p
	}
	ours, other := start(uint64(r.spawner.Prefix())<<32|7), start(0)
	eventually(t, "it is old enough", func() bool { return found(l.janitor(false))[leakProcess] == 1 })
	if !alive(ours.Pid()) {
		t.Fatal("it was ended although it was only to be reported")
	}
	c := l.janitor(true)
	if len(c.Leaks) != 1 || !c.Leaks[0].Removed {
		t.Errorf("%+v", c)
	}
	<-ours.Exited()
	if !alive(other.Pid()) || !alive(pid) {
		t.Error("a stranger or a crawler was ended")
	}
}

func TestASourceThatIsHeldDoesNotStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	r := w.start()
	w.reports(1)
	w.phase("a", "running")
	ctx := t.Context()
	if _, ok := r.hold(ctx, "a"); ok {
		t.Error("a source whose crawler runs can be held")
	}
	w.must(control.Command{Action: control.ActionStop, Sources: []string{"a"}})
	release, ok := r.hold(ctx, "a")
	if !ok {
		t.Fatal("a source at rest cannot be held")
	}
	started := make(chan control.Reply, 1)
	go func() { started <- w.command(control.Command{Action: control.ActionStart, Sources: []string{"a"}}) }()
	var pending *worker.Worker
	r.ask(ctx, func() { pending = r.fleet.sources["a"].worker })
	eventually(t, "it is about to start", func() bool { return pending.Snapshot().Phase == worker.Pending })
	if _, ok := r.hold(ctx, "a"); ok {
		t.Error("a source that starts can be held")
	}
	release2 := r.fleet.holds.take("a") // the refused one has let go
	release2()
	w.none()
	release()
	if reply := <-started; !reply.OK {
		t.Errorf("%+v", reply)
	}
	w.reports(1)
}

func TestHolds(t *testing.T) {
	t.Parallel()
	var h holds
	must(t, h.wait(t.Context(), "a"))
	release := h.take("a")
	must(t, h.wait(t.Context(), "b"))
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.wait(short, "a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.wait(t.Context(), "a") }()
	release()
	must(t, <-done)
}

func TestNights(t *testing.T) {
	t.Parallel()
	l := leftWorld(t, "1h")
	r := l.start()
	eventually(t, "it is ready", r.ready.Load)
	l.root = r.spawner.TempRoot()
	told := make(chan string, 9)
	r.ask(t.Context(), func() {
		r.fleet.alerts = newAlerts([]configs.Alert{{When: configs.AlertLeaks, Pause: time.Hour}}, func(_ configs.Alert, _ string, a hook.Alert) bool { told <- a.State; return true })
	})
	j := &janitor{m: r.Manager}
	l.temp("")
	j.night(t.Context(), false)
	before, err := r.Store.LastLeaks(t.Context(), "test")
	must(t, err)
	if len(before) != len(leakKinds) || before[leakTemp] != (sql.Leaks{Kind: leakTemp, Found: 1}) {
		t.Errorf("%v", before)
	}
	l.temp("")
	c := j.look(t.Context(), false)
	if got := risen(before, c); !slices.Equal(got, []string{leakTemp}) {
		t.Errorf("risen: %v", got)
	}
	if got := append(risen(nil, c), risen(map[string]sql.Leaks{leakTemp: {Found: 2}, leakTick: {Found: 1}}, c)...); len(got) > 0 {
		t.Errorf("risen: %v", got)
	}
	j.night(t.Context(), true)
	after, err := r.Store.LastLeaks(t.Context(), "test")
	if diff := cmp.Diff(sql.Leaks{Kind: leakTemp, Found: 2, Removed: 2}, after[leakTemp]); diff != "" || err != nil {
		t.Error(diff, err)
	}
	j.night(t.Context(), true) // nothing is left
	for _, want := range []string{"begins", "over"} {
		select {
		case got := <-told:
			if got != want {
				t.Errorf("the alert %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("no alert %s", want)
		}
	}
}

func TestNextLook(t *testing.T) {
	t.Parallel()
	m := &Manager{}
	last := time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)
	for c, want := range map[configs.Janitor]string{
		{Schedule: "0 3 * * *"}:                            "2026-11-30T03:00:00Z",
		{Schedule: "0 3 * * *", Timezone: "Europe/Berlin"}: "2026-11-30T02:00:00Z",
		{Schedule: "@hourly"}:                              "2026-11-29T11:00:00Z",
	} {
		if got := m.nextLook(c, last).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
	for _, c := range []configs.Janitor{{}, {Schedule: "0 0 30 2 *"}} {
		if got := time.Until(m.nextLook(c, last)); got < 24*time.Hour {
			t.Errorf("%+v: in %s", c, got)
		}
	}
}
