package manager

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
)

// A row that somebody holds locked must not undo a command: it stays on top until it is written.
func TestACommandHoldsWhileItsRowIsLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a", "b")
	w.start()
	w.reports(2)
	w.tickOf("a")
	w.phase("b", "running")
	w.pg.Exec(t, `insert into crawl_source_options(code) values ('b')`)
	conn := w.pg.Conn(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{`select * from sources for update`, `select * from crawl_source_options for update`} {
		if _, err := tx.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if r := w.must(control.Command{Action: "stop", Sources: []string{"b"}}); r.Warning == "" {
		t.Errorf("%+v", r)
	}
	w.must(control.Command{Action: "pause", Sources: []string{"a"}})
	w.pg.Exec(t, `insert into sources(code,collector,adapter,enabled,interval_seconds) values ('c','news','x',true,3600)`) // polls see changes meanwhile
	w.reports(1)
	w.phase("b", "stopped")
	if r := w.records()["a"]; !r.Paused {
		t.Error("the pause is gone")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what it writes follows", func() bool {
		return testenv.Value[int](t, w.pg, `select count(*) from crawl_source_options where code='b' and wanted='stopped'`) == 1 &&
			testenv.Value[int](t, w.pg, `select count(*) from sources where code='a' and paused_until is not null`) == 1
	})
	w.none()
}

// Whoever lost the key touches neither lists nor the runs of its successor.
func TestAManagerThatLostItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin(t, "*", "-ignore-term"))
	w.configure("manager: {name: test, drain_timeout: 1h, status_interval: 100ms, status_ttl: 3s}", standin(t, "*", "-ignore-term"))
	w.source("a")
	r := w.start()
	w.reports(1)
	w.tickOf("a")
	w.phase("a", "running")
	open := w.run("a", "schedule", time.Now()) // keeps the drain waiting
	opened := time.Now().UnixNano()
	eventually(t, "the key is surely ours after that", func() bool { return r.lease.heldAt.Load() > opened })
	r.stop()
	ctx := context.Background()
	if err := w.rdb.Set(ctx, "crawler:manager", `{"name":"other","host":"elsewhere"}`, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	w.rdb.RPush(ctx, "crawler:a:start_urls", "theirs")
	eventually(t, "it knows", r.lease.lost.Load)
	theirs := w.run("a", "schedule", time.Now().Add(time.Millisecond))
	err := <-r.done
	r.done <- err
	if err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("ended with %v", err)
	}
	if got := w.rdb.LRange(ctx, "crawler:a:start_urls", 0, -1).Val(); len(got) != 1 || got[0] != "theirs" {
		t.Errorf("the list is %v", got)
	}
	if w.runStatus(open) != "interrupted" || w.runStatus(theirs) != "running" {
		t.Errorf("ours is %s, theirs %s", w.runStatus(open), w.runStatus(theirs))
	}
	if w.rdb.Get(ctx, "crawler:manager").Val() == "" {
		t.Error("their key is gone")
	}
}

func TestTheEndDoesNotWaitForServersThatHang(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.source("a")
	r := w.start()
	pid := w.reports(1)[0].pid
	w.phase("a", "running")
	w.pg.Pause(t)
	w.redis.Pause(t)
	begin := time.Now()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	t.Logf("over after %v, with Postgres and Redis suspended", time.Since(begin))
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if alive(pid) {
		t.Error("the crawler lives")
	}
	w.redis.Continue(t)
	w.pg.Continue(t)
}

func TestCommandsBeforeTheFirstPollWait(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		var got control.Reply
		var replied sync.WaitGroup
		replied.Go(func() { got = b.do(control.Command{Action: "restart", All: true}) })
		time.Sleep(time.Second)
		b.poll(row("a", 60))
		replied.Wait()
		if !got.OK || len(got.Results) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestASupersededRestartTicksNothing(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.poll(row("a", 60))
		b.one("start", triggerStartup)
		b.take("a")
		var replies sync.WaitGroup
		replies.Go(func() { b.do(control.Command{Action: "restart", Sources: []string{"a"}}) })
		replies.Go(func() { b.do(control.Command{Action: "start", Sources: []string{"a"}}) })
		replies.Wait()
		for _, p := range b.sent() {
			if b.starts("a") == 1 {
				t.Errorf("no restart, but %+v", p)
			}
		}
	})
}

func (b *bench) starts(code string) (n int) {
	b.run(func() { n = b.sources[code].starts })
	return n
}

func TestATickByHandHasNoDueTimeThatComesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	w.pg.Exec(t, `insert into crawl_source_options(code,schedule) values ('a','@hourly')`)
	last := time.Now().Truncate(time.Hour)
	w.rdb.HSet(t.Context(), "crawler:last_due", "a", last.UTC().Format(dueLayout))
	w.start()
	pid := w.reports(1)[0].pid
	w.phase("a", "running")
	w.must(control.Command{Action: "tick", Sources: []string{"a"}})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil { // the tick by hand still waits
		t.Fatal(err)
	}
	w.reports(1)
	w.phase("a", "running")
	w.must(control.Command{Action: "tick", Sources: []string{"a"}})
	if tick := w.tickOf("a"); !strings.Contains(tick, "manual") {
		t.Errorf("a due time went out twice: %s", tick)
	}
}

func TestAnIntervalThatWaitsGetsItsDeletedTickAgain(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		adapter := b.conf.Adapters["*"]
		adapter.OnStart = "wait"
		b.conf.Adapters["*"] = adapter
		b.track("a")
		b.poll(row("a", 600))
		time.Sleep(10 * time.Minute)
		first := b.one("an interval later", triggerStartup)
		b.crash("a")
		time.Sleep(10 * time.Second)
		if got := b.one("again", triggerStartup); !got.due.Equal(first.due) {
			t.Errorf("due %v, not %v", got.due, first.due)
		}
	})
}

func TestStaggerHasOneTimer(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		var rows []sql.Source
		for i := range 100 {
			rows = append(rows, row("s"+string(rune('a'+i/10))+string(rune('a'+i%10)), 3600))
		}
		b.poll(rows...)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.do(control.Command{Action: "restart", All: true, Stagger: 5 * time.Second})
		}()
		time.Sleep(12 * time.Second)
		b.run(func() {
			if len(b.rollouts) != 1 {
				t.Errorf("%d rollouts", len(b.rollouts))
			}
		})
		b.stopAll() // the manager ends in the middle: it is answered all the same
		<-done
	})
}

// Two restarts that wait together and are superseded together leave the next tick as it was before the first.
func TestTwoRestartsThatAreSupersededMakeNothingDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		busy := make(chan struct{}) // what the worker is until it is closed, so that it takes all that is asked for at once
		b.publish = func(e status.Event) {
			if e.To == string(worker.Unhealthy) {
				<-busy
			}
		}
		end := b.launch(t.Context())
		b.poll(row("a", 3600))
		time.Sleep(time.Second)
		b.one("start", triggerStartup)
		b.take("a")
		time.Sleep(time.Minute)
		b.run(func() {
			w := b.sources["a"].worker
			w.Judge(worker.Verdict{ProcessID: w.Snapshot().ProcessID, Phase: worker.Unhealthy, Why: "it is slow"})
		})
		synctest.Wait()
		b.run(func() {
			for _, action := range []string{control.ActionRestart, control.ActionRestart, control.ActionStart} {
				b.command(control.Command{Action: action, Sources: []string{"a"}}, func(control.Reply) {})
			}
		})
		close(busy)
		time.Sleep(time.Minute)
		b.nothing("both restarts were superseded")
		time.Sleep(time.Hour)
		b.one("the regular one", triggerSchedule)
		end()
		time.Sleep(time.Minute) // the second marks
	})
}

// A tick by hand that comes while the crawler is being restarted says so: it is not that there is none.
func TestATickByHandDuringARestartSaysSo(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.poll(row("a", 3600))
		time.Sleep(time.Second)
		b.run(func() {
			b.command(control.Command{Action: control.ActionRestart, Sources: []string{"a"}}, func(control.Reply) {})
		})
		if r := b.do(control.Command{Action: control.ActionTick, Sources: []string{"a"}}); r.OK || !strings.Contains(r.Results["a"].Error, "is being restarted") {
			t.Errorf("%+v", r)
		}
	})
}

// The janitor gives up at the end of the manager, and what it asked the fleet is answered all the same.
func TestAnAnswerThatComesTooLateHarmsNobody(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.poll(row("a", 3600))
		time.Sleep(time.Second)
		busy := make(chan struct{})
		b.inbox.put(func() { <-busy })
		synctest.Wait()
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		j := &janitor{m: &Manager{fleet: b.fleet}}
		if _, err := j.states(ctx); err == nil {
			t.Error("the fleet was busy, and the janitor got an answer")
		}
		close(busy)
		synctest.Wait()
	})
}
