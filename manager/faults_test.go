package manager

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
)

// ownWorld has a Postgres of its own, which can be stopped.
func ownWorld(t *testing.T, adapters ...string) *world {
	t.Helper()
	pg := testenv.OwnPostgres(t)
	if err := migrate(t.Context(), pg.URL()); err != nil {
		t.Fatal(err)
	}
	return worldOf(t, pg, testenv.Redis(t), adapters...)
}

// restartable waits until a command gets through again: what is sent while the manager is not subscribed is lost.
func (w *world) restartable(code string) {
	w.t.Helper()
	eventually(w.t, "the control channel works", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		r, err := control.Sender{Client: w.rdb, Control: "crawler:control", Replies: "crawler:replies"}.
			Send(ctx, control.Command{Action: "restart", Sources: []string{code}})
		return err == nil && r.OK
	})
}

func TestServersThatRestart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ redis, postgres, data bool }{
		"redis, with its data": {true, false, true},
		"redis, empty":         {true, false, false},
		"postgres":             {false, true, true},
		"both":                 {true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ownWorld(t)
			w.source("a", "b")
			r := w.start()
			first := w.reports(2)
			w.phase("a", "running")
			w.phase("b", "running")
			if c.redis {
				w.redis.Stop(t)
			}
			if c.postgres {
				w.pg.Stop(t)
			}
			if c.redis && r.readiness() == nil {
				eventually(t, "it is not ready", func() bool { return r.readiness() != nil })
			}
			for _, s := range first {
				if !alive(s.pid) {
					t.Errorf("the crawler of %s is gone", s.code)
				}
			}
			if c.redis {
				w.redis.Start(t, c.data)
			}
			if c.postgres {
				w.pg.Start(t)
			}
			eventually(t, "it is ready again", func() bool { return r.readiness() == nil })
			w.phase("a", "running")
			w.restartable("a")
			eventually(t, "a new crawler", func() bool { return w.rdb.LLen(context.Background(), "starts").Val() > 0 })
			w.tickOf("a")
			w.source("late")
			w.phase("late", "running")
			if err := r.health(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBothAwayAtTheStart(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.source("a")
	w.pg.Stop(t)
	w.redis.Stop(t)
	r := w.start()
	eventually(t, "it says that it waits", func() bool { return r.readiness() != nil && r.health() == nil })
	w.pg.Start(t)
	w.redis.Start(t, false)
	w.phase("a", "running")
	w.tickOf("a")
}

func TestACrawlerIsStartedWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.source("a")
	r := w.start()
	first := w.reports(1)[0]
	w.phase("a", "running")
	ctx := context.Background()
	w.rdb.Del(ctx, "crawler:a:start_urls")
	w.rdb.RPush(ctx, "crawler:a:start_urls", "left over")
	w.rdb.ZAdd(ctx, "crawler:a:requests")
	w.redis.Stop(t)
	if err := syscall.Kill(first.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var pid int
	eventually(t, "the next crawler", func() bool {
		r.ask(ctx, func() {
			if s := r.fleet.sources["a"]; s.up {
				pid = s.worker.Snapshot().Pid
			}
		})
		return pid != 0 && pid != first.pid
	})
	w.redis.Start(t, true)
	w.rdb.Del(ctx, "crawler:a:start_urls")
	w.rdb.RPush(ctx, "crawler:a:start_urls", "left over")
	w.rdb.Set(ctx, "crawler:a:requests", "x", 0)
	eventually(t, "the cleaning and then the tick follow", func() bool {
		ticks := w.rdb.LRange(ctx, "crawler:a:start_urls", 0, -1).Val()
		return len(ticks) == 1 && strings.Contains(ticks[0], `"trigger": "startup"`) && w.rdb.Exists(ctx, "crawler:a:requests").Val() == 0
	})
}

func TestCleaningBeforeAStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	ctx := context.Background()
	w.rdb.RPush(ctx, "crawler:a:start_urls", "old", "older")
	w.rdb.ZAdd(ctx, "crawler:a:requests")
	w.rdb.Set(ctx, "crawler:a:requests", "x", 0)
	w.rdb.Set(ctx, "crawler:a:other", "x", 0)
	w.start()
	w.reports(1)
	eventually(t, "only our tick is there", func() bool {
		ticks := w.rdb.LRange(ctx, "crawler:a:start_urls", 0, -1).Val()
		return len(ticks) == 1 && strings.Contains(ticks[0], "startup")
	})
	if w.rdb.Exists(ctx, "crawler:a:requests").Val() != 0 || w.rdb.Exists(ctx, "crawler:a:other").Val() != 1 {
		t.Error("the wrong keys were deleted")
	}
}

func TestKeysOfTheWrongType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a", "b")
	ctx := context.Background()
	w.rdb.Set(ctx, "crawler:a:start_urls", "precious", 0)
	w.rdb.Set(ctx, "crawler:status", "precious too", 0)
	r := w.start()
	w.reports(2)
	w.tickOf("b")
	eventually(t, "the push was refused", func() bool {
		said := ""
		r.ask(ctx, func() { said = r.fleet.sources["a"].said })
		return strings.Contains(said, "another type")
	})
	if w.rdb.Get(ctx, "crawler:a:start_urls").Val() != "precious" || w.rdb.Get(ctx, "crawler:status").Val() != "precious too" || w.rdb.TTL(ctx, "crawler:status").Val() != -1 {
		t.Error("something was changed")
	}
	w.rdb.Del(ctx, "crawler:a:start_urls", "crawler:status")
	w.tickOf("a")
	w.phase("a", "running")
}

func TestTheStatusExpiresWithItsManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a", "gone")
	w.start()
	w.phase("a", "running")
	ctx := context.Background()
	if ttl := w.rdb.PTTL(ctx, "crawler:status").Val(); ttl <= 0 || ttl > 3*time.Second {
		t.Errorf("it lives %v", ttl)
	}
	w.rdb.Del(ctx, "crawler:status")
	w.phase("a", "running") // whole again
	w.pg.Exec(t, `delete from sources where code='gone'`)
	eventually(t, "a deleted source leaves", func() bool { r := w.records(); return len(r) == 1 && r["a"].Phase == "running" })
	old := w.rdb.HGet(ctx, "crawler:status", "a").Val()
	if !strings.HasPrefix(old, `{"state": "running", "pid": `) || !strings.Contains(old, `, "started_at": "20`) || !strings.Contains(old, `+00:00", "next_run_at": "20`) {
		t.Error(old)
	}
}

func TestSourcesChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin(t, "*"), standin(t, "other", "-term-delay", "10ms"))
	w.source("a")
	w.start()
	first := w.reports(1)[0]
	w.source("b")
	second := w.reports(1)[0]
	if second.code != "b" {
		t.Errorf("%+v", second)
	}
	w.pg.Exec(t, `update sources set adapter='other' where code='a'`)
	third := w.reports(1)[0]
	if third.code != "a" || alive(first.pid) || !alive(second.pid) {
		t.Errorf("%+v", third)
	}
	w.tickOf("a")
	w.pg.Exec(t, `update sources set enabled=false where code='a'`)
	eventually(t, "it is disabled and stays", func() bool { r := w.records()["a"]; return !r.Enabled && r.Phase == "running" })
	w.pg.Exec(t, `delete from sources where code='b'`)
	eventually(t, "its crawler ends", func() bool { return !alive(second.pid) })
	w.pg.Exec(t, `insert into sources(code,collector,adapter,enabled,interval_seconds) values ('a b','news','x',true,60),('-x','news','x',true,60),('a/b','news','x',true,60),(E'a\nb','news','x',true,60),('foreign','blogs','x',true,60)`)
	w.source("c")
	if s := w.reports(1)[0]; s.code != "c" {
		t.Errorf("%+v", s)
	}
	w.none()
}

func TestDisabledSourcesCanBeStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure("manager: {name: test, disabled: stop, status_interval: 100ms, status_ttl: 3s}", standin(t, "*"))
	w.source("a")
	w.start()
	first := w.reports(1)[0]
	w.phase("a", "running")
	w.pg.Exec(t, `update sources set enabled=false`)
	w.phase("a", "stopped")
	if alive(first.pid) {
		t.Error("its crawler runs")
	}
	if r := w.command(control.Command{Action: "restart", Sources: []string{"a"}}); r.OK {
		t.Errorf("%+v", r)
	}
	w.none()
	w.pg.Exec(t, `update sources set enabled=true`)
	w.reports(1)
}

func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin(t, "*"), standin(t, "other"))
	w.source("a", "b")
	w.pg.Exec(t, `update sources set adapter='other' where code='b'`)
	r := w.start()
	pids := map[string]int{}
	for _, s := range w.reports(2) {
		pids[s.code] = s.pid
	}
	w.phase("a", "running")
	w.phase("b", "running")
	w.write(w.text + "  broken: {comand: [x]}\n")
	if reply := w.command(control.Command{Action: "reload"}); reply.OK || !strings.Contains(reply.Error, "comand") {
		t.Errorf("%+v", reply)
	}
	w.configure("manager: {name: test, status_interval: 100ms, status_ttl: 3s}", standin(t, "*"), standin(t, "other", "-term-delay", "1ms"))
	r.Reload()
	if s := w.reports(1)[0]; s.code != "b" || s.pid == pids["b"] || !alive(pids["a"]) {
		t.Errorf("%+v", s)
	}
	w.none()
}

func TestAReloadKeepsWhatItCannotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	r := w.start()
	w.reports(1)
	w.tickOf("a")
	w.write(strings.Replace(w.text, "redis: {", `redis: {keys: {start_urls: "other:{code}"}, `, 1))
	if reply := w.command(control.Command{Action: "reload"}); !reply.OK {
		t.Errorf("%+v", reply)
	}
	w.must(control.Command{Action: "restart", Sources: []string{"a"}})
	w.tickOf("a") // still in the old list
	r.ask(t.Context(), func() {
		for _, entry := range r.fleet.environment(r.fleet.sources["a"].adapter, "a") {
			if strings.HasPrefix(entry, "CRAWLKEEPER_START_URLS_KEY=") && entry != "CRAWLKEEPER_START_URLS_KEY=crawler:a:start_urls" {
				t.Error(entry)
			}
		}
	})
}

func TestABrokenAdapterIsTheMatterOfItsSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin(t, "good"), "  missing: {command: [no-such-crawler]}\n", "  nodir: {command: [sh], dir: /no/such/dir}\n")
	w.source("ok", "bad", "lost", "none")
	for code, adapter := range map[string]string{"ok": "good", "bad": "missing", "lost": "nodir", "none": "unknown"} {
		w.pg.Exec(t, `update sources set adapter=$2 where code=$1`, code, adapter)
	}
	r := w.start()
	w.reports(1)
	for _, code := range []string{"bad", "lost"} {
		if rec := w.phase(code, "backoff"); rec.LastExit == nil || rec.LastExit.Cause != "start_failed" {
			t.Errorf("%s: %+v", code, rec)
		}
	}
	if rec := w.phase("none", "stopped"); !strings.Contains(rec.Problem, `no adapter "unknown"`) {
		t.Errorf("%+v", rec)
	}
	if reply := w.command(control.Command{Action: "restart", Sources: []string{"bad", "ok", "none"}}); reply.OK || !reply.Results["ok"].OK ||
		!strings.Contains(reply.Results["bad"].Error, "no-such-crawler") || reply.Results["none"].OK {
		t.Errorf("%+v", reply)
	}
	eventually(t, "the log says why", func() bool {
		return testenv.Value[int](t, w.pg, `select count(*) from crawl_logs where source_code='bad' and level='ERROR' and message like '%no such program%'`) > 0
	})
	if err := r.health(); err != nil {
		t.Error(err)
	}
}

func TestShutdownOfManyInEveryState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin(t, "*"), standin(t, "deaf", "-ignore-term", "-stubborn", "2"), standin(t, "leaver", "-leave-child", "-setsid", "-double-fork"),
		strings.Replace(standin(t, "crash", "-exit", "3", "-after", "0s"), "min: 200ms, max: 1s", "min: 1h, max: 1h", 1))
	for i := range 50 {
		code := fmt.Sprintf("s%02d", i)
		w.source(code)
		w.pg.Exec(t, `update sources set adapter=$2 where code=$1`, code, []string{"ok", "ok", "deaf", "leaver", "crash"}[i%5])
	}
	r := w.start()
	w.reports(50)
	for i := range 50 {
		w.phase(fmt.Sprintf("s%02d", i), []string{"running", "running", "running", "running", "cooling"}[i%5])
	}
	prefix := r.spawner.Prefix()
	w.source("starting") // and one that is just being started
	r.pollNow()
	begin := time.Now()
	if err := r.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	t.Logf("over after %v, with a stop timeout of 2 s", time.Since(begin))
	if left := testenv.Bearing(t, prefix); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if n := testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where status<>'exited'`); n != 0 {
		t.Errorf("%d rows are open", n)
	}
}
