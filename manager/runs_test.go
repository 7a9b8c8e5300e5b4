package manager

import (
	"syscall"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

// run inserts a run that is open, and returns its id.
func (w *world) run(code, trigger string, started time.Time) int64 {
	w.t.Helper()
	var null *string
	if trigger != "" {
		null = &trigger
	}
	return testenv.Value[int64](w.t, w.pg, `insert into crawl_runs(source_code,status,trigger,started_at) values ($1,'running',$2,$3) returning id`, code, null, started)
}

func (w *world) runStatus(id int64) string {
	w.t.Helper()
	return testenv.Value[string](w.t, w.pg, `select status from crawl_runs where id=$1`, id)
}

func TestAKilledCrawlersRunIsInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a", "b")
	left := w.run("a", "schedule", time.Now().Add(-time.Hour))
	w.start()
	pids := map[string]int{}
	for _, s := range w.reports(2) {
		pids[s.code] = s.pid
	}
	eventually(t, "what an earlier manager left is marked", func() bool { return w.runStatus(left) == "interrupted" })
	mine := w.run("a", "schedule", time.Now())
	backfill, none := w.run("a", "backfill", time.Now()), w.run("a", "", time.Now())
	other, later := w.run("b", "schedule", time.Now()), w.run("a", "schedule", time.Now().Add(time.Hour))
	before := time.Now()
	if err := syscall.Kill(pids["a"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run is interrupted", func() bool { return w.runStatus(mine) == "interrupted" })
	t.Logf("marked after %v", time.Since(before))
	finished := testenv.Value[time.Time](t, w.pg, `select finished_at from crawl_runs where id=$1`, mine)
	text := testenv.Value[string](t, w.pg, `select error from crawl_runs where id=$1`, mine)
	if want := "crawler ended before this run was finished (signalled: signal SIGKILL)"; text != want {
		t.Errorf("error %q, want %q", text, want)
	}
	if finished.Before(before.Add(-time.Millisecond)) || time.Since(finished) > patience {
		t.Errorf("finished at %v, killed at %v", finished, before)
	}
	// A run that was opened in the last moment shows up a little later.
	last := w.run("a", "schedule", before)
	eventually(t, "it is marked too", func() bool { return w.runStatus(last) == "interrupted" })
	for what, id := range map[string]int64{"backfill": backfill, "without a trigger": none, "of another source": other, "of the next crawler": later} {
		if got := w.runStatus(id); got != "running" {
			t.Errorf("the run %s is %s", what, got)
		}
	}
}

func TestMarksFollowWhenPostgresIsBack(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	if err := migrate(t.Context(), pg.URL()); err != nil {
		t.Fatal(err)
	}
	w := worldOf(t, pg, testenv.Redis(t))
	w.source("a")
	w.start()
	first := w.reports(1)[0]
	mine := w.run("a", "schedule", time.Now())
	pg.Stop(t)
	if err := syscall.Kill(first.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := w.reports(1)[0] // restarted without the database
	if second.pid == first.pid {
		t.Fatal("not restarted")
	}
	pg.Start(t)
	eventually(t, "the mark follows", func() bool { return w.runStatus(mine) == "interrupted" })
	eventually(t, "the evidence follows", func() bool {
		return testenv.Value[int](t, pg, `select count(*) from crawl_processes where source='a' and status='exited' and signal='SIGKILL' and cause='signalled'`) == 1 &&
			testenv.Value[int](t, pg, `select count(*) from crawl_processes where source='a' and status='running'`) == 1
	})
	eventually(t, "the log follows", func() bool {
		return testenv.Value[int](t, pg, `select count(*) from crawl_logs where source_code='a' and level='ERROR' and message like 'crawler ended by itself: signalled%'`) == 1
	})
}

func TestProcessesOfALostManagerAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	w.pg.Exec(t, `insert into crawl_processes(id,source,kind,manager,host,boot_id,command,dir,status,queued_at) values ('0192f0c1-0000-7000-8000-000000000001','a','crawler','other','elsewhere','x','[]','','running',now()-interval '1 day')`)
	w.start()
	w.reports(1)
	eventually(t, "it is closed", func() bool {
		return testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where cause='manager_lost' and status='exited'`) == 1
	})
	if n := testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where status='running'`); n != 1 {
		t.Errorf("%d processes run", n)
	}
}

// Rows are closed by the codes that there are: by none, where they were asked for in the moment before the sources were read, nothing
// would ever be closed.
func TestThereAreNoCodesBeforeTheSourcesAreRead(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		var before, none, one map[string]bool
		b.run(func() { before = b.codes() })
		b.poll()
		b.run(func() { none = b.codes() })
		b.poll(row("a", 60))
		b.run(func() { one = b.codes() })
		if before != nil || none == nil || len(none) > 0 || len(one) != 1 || !one["a"] {
			t.Errorf("before %v, then %v and %v", before, none, one)
		}
	})
}

// A source that is deleted while its manager is killed may come back: its row is closed before.
func TestProcessesOfADeletedSourceAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	const insert = `insert into crawl_processes(id,source,kind,manager,host,boot_id,command,dir,status,queued_at) values ($1,$2,'crawler',$3,'elsewhere','x','[]','','running',now()-interval '1 day')`
	w.pg.Exec(t, insert, "0192f0c1-0000-7000-8000-000000000001", "deleted", "test")
	w.pg.Exec(t, insert, "0192f0c1-0000-7000-8000-000000000002", "foreign", "test")
	w.pg.Exec(t, `insert into sources(code,collector,adapter,enabled,interval_seconds) values ('foreign','blogs','x',true,60)`)
	w.start()
	w.reports(1)
	eventually(t, "it is closed", func() bool {
		return testenv.Value[string](t, w.pg, `select coalesce(string_agg(source, ','), '') from crawl_processes where cause='manager_lost' and status='exited'`) == "deleted"
	})
}
