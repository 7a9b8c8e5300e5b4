package manager

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
)

func TestRestartOfAllAndOfAList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var codes []string
	for i := range 50 {
		codes = append(codes, fmt.Sprintf("s%02d", i))
	}
	w.source(codes...)
	w.start()
	before := map[string]int{}
	for _, s := range w.reports(50) {
		before[s.code] = s.pid
	}
	for _, code := range codes {
		w.phase(code, "running")
	}
	reply := w.must(control.Command{Action: "restart", All: true, By: "tester"})
	if len(reply.Results) != 50 || reply.Manager != "test" {
		t.Errorf("%d results by %q", len(reply.Results), reply.Manager)
	}
	for _, s := range w.reports(50) {
		if s.pid == before[s.code] || alive(before[s.code]) {
			t.Errorf("%s: pid %d after %d", s.code, s.pid, before[s.code])
		}
	}
	reply = w.command(control.Command{Action: "restart", Sources: []string{"s00", "nobody"}})
	if reply.OK || !strings.Contains(reply.Error, "nobody") {
		t.Errorf("%+v", reply)
	}
	w.must(control.Command{Action: "restart", Sources: []string{"s00", "s01"}})
	w.reports(2)
	w.none()
	if n := testenv.Value[int](t, w.pg, `select sum(consecutive_failures)::int from sources`); n != 0 {
		t.Errorf("%d failures are left", n)
	}
	if n := testenv.Value[int](t, w.pg, `select count(*) from crawl_logs where message='restart command received (tester)'`); n != 50 {
		t.Errorf("%d log rows", n)
	}
}

func TestWishesAgainstEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin(t, "*", "-ignore-term"))
	w.source("a")
	w.start()
	w.reports(1)
	w.phase("a", "running")
	var all sync.WaitGroup
	replies := make([]control.Reply, 3)
	for i, action := range []string{"restart", "restart", "stop"} {
		all.Go(func() { replies[i] = w.command(control.Command{Action: action, Sources: []string{"a"}}) })
		eventually(t, action+" is taken", func() bool { // a stop takes its timeout of 2 s
			return testenv.Value[int](t, w.pg, `select count(*) from crawl_logs where message like '%command received%'`) == i+1
		})
	}
	all.Wait()
	for i, want := range []string{control.Superseded, control.Superseded, ""} {
		if got := replies[i].Results["a"].Error; got != want {
			t.Errorf("reply %d: %q, want %q", i, got, want)
		}
	}
	w.phase("a", "stopped")
	w.none()
	eventually(t, "the wish is kept", func() bool {
		return testenv.Value[string](t, w.pg, `select coalesce(max(wanted),'') from crawl_source_options where code='a'`) == "stopped"
	})
	if r := w.command(control.Command{Action: "tick", Sources: []string{"a"}}); r.OK {
		t.Errorf("%+v", r)
	}
	w.must(control.Command{Action: "start", Sources: []string{"a"}})
	w.reports(1)
	w.phase("a", "running")
}

func TestAStoppedSourceStaysStoppedUnderTheNextManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a", "b")
	r := w.start()
	w.reports(2)
	w.must(control.Command{Action: "stop", Sources: []string{"a"}})
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	w.start()
	if s := w.reports(1)[0]; s.code != "b" {
		t.Errorf("%s was started", s.code)
	}
	w.phase("a", "stopped")
	w.must(control.Command{Action: "restart", Sources: []string{"a"}}) // ends the stop too
	w.reports(1)
}

func TestRestartEndsABackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(standin(t, "*"), "min: 200ms, max: 1s", "min: 1h, max: 1h", 1))
	w.source("a")
	w.start()
	if err := syscall.Kill(w.reports(1)[0].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if r := w.phase("a", "cooling"); r.LastExit == nil || r.LastExit.Signal != "SIGKILL" || r.BackoffUntil.Before(time.Now().Add(30*time.Minute)) {
		t.Errorf("%+v", r)
	}
	w.must(control.Command{Action: "restart", Sources: []string{"a"}})
	w.reports(1)
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	w.start()
	w.reports(1)
	w.tickOf("a")
	w.must(control.Command{Action: "pause", Sources: []string{"a"}, Reason: "maintenance", By: "me"})
	until := testenv.Value[pgtype.Timestamptz](t, w.pg, `select paused_until from sources where code='a'`)
	if until.Time.Year() != 9999 {
		t.Errorf("paused until %v", until.Time)
	}
	eventually(t, "the status shows it", func() bool {
		r := w.records()["a"]
		return r.Paused && r.PauseReason == "maintenance" && r.NextRunAt.Year() == 9999
	})
	if r := w.must(control.Command{Action: "tick", Sources: []string{"a"}}); r.Results["a"].Tick != control.TickPushed {
		t.Errorf("%+v", r)
	}
	if tick := w.tickOf("a"); !strings.Contains(tick, `"trigger": "manual"`) {
		t.Error(tick)
	}
	w.must(control.Command{Action: "resume", Sources: []string{"a"}})
	if tick := w.tickOf("a"); !strings.Contains(tick, `"trigger": "schedule"`) {
		t.Error(tick)
	}
	if n := testenv.Value[int](t, w.pg, `select count(*) from sources where paused_until is not null`); n != 0 {
		t.Error("still paused in the database")
	}
	w.none()
}

func TestPostgresAwayIsAWarning(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	if err := migrate(t.Context(), pg.URL()); err != nil {
		t.Fatal(err)
	}
	w := worldOf(t, pg, testenv.Redis(t))
	w.source("a")
	w.start()
	w.reports(1)
	w.phase("a", "running")
	pg.Stop(t)
	if r := w.must(control.Command{Action: "restart", Sources: []string{"a"}}); r.Warning == "" {
		t.Errorf("%+v", r)
	}
	w.reports(1)
	pg.Start(t)
	eventually(t, "what it writes follows", func() bool {
		return testenv.Value[int](t, pg, `select consecutive_failures from sources where code='a'`) == 0
	})
}

func TestGarbageOnTheChannelChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source("a")
	w.start()
	w.reports(1)
	w.phase("a", "running")
	for _, text := range []string{
		"", "garbage", "[]", `["restart"]`, `"restart"`, "null", "{}", `{"action":"restart"}`, `{"action":"explode","source":"a"}`,
		`{"action":"restart","source":{"a":1}}`, `{"action":"restart","source":["a","nobody"]}`, "\xff\xfe",
		strings.Repeat("x", 10<<20), strings.Repeat(`{"a":`, 20000), strings.Repeat("[", 60000),
		`{"action":"restart","source":"a","x":"` + strings.Repeat("y", 70000) + `"}`,
	} {
		if err := w.rdb.Publish(context.Background(), "crawler:control", text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	replies := w.rdb.Subscribe(t.Context(), "crawler:replies")
	defer replies.Close()
	if _, err := replies.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.rdb.Publish(t.Context(), "crawler:control", `{"action":"explode","source":"a","id":"42"}`)
	if m, err := replies.ReceiveMessage(t.Context()); err != nil || !strings.Contains(m.Payload, `"id":"42","ok":false`) {
		t.Errorf("%v %v", m, err)
	}
	w.none()
	if r := w.records()["a"]; r.Restarts != 0 || r.Phase != "running" {
		t.Errorf("%+v", r)
	}
}

// Commands that cannot be read and commands for nobody: all are counted and answered, and few are logged.
func TestAFloodOfBadCommandsIsFewLines(t *testing.T) {
	t.Parallel()
	const flood = 1000
	w := newWorld(t)
	var lines logLines
	w.log = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelInfo}))
	r := w.start()
	nobody := control.Command{Action: "stop", Sources: []string{"nobody"}}
	w.command(nobody) // from now on it listens
	_, err := w.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for range flood {
			p.Publish(t.Context(), "crawler:control", "garbage")
			p.Publish(t.Context(), "crawler:control", `{"action":"stop","source":"nobody"}`)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if reply := w.command(nobody); reply.OK || !strings.Contains(reply.Error, "unknown source nobody") { // behind all others
		t.Errorf("%+v", reply)
	}
	text := scrape(t, r)
	for _, want := range []string{
		fmt.Sprintf("\ncrawlkeeper_bad_commands_total %d\n", flood),
		fmt.Sprintf("\ncrawlkeeper_commands_total{action=\"stop\",result=\"error\"} %d\n", flood+2),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not among the metrics", want)
		}
	}
	for _, message := range []string{"bad command", "a command is refused"} {
		if n := lines.count(message); n < 1 || n > flood/10 {
			t.Errorf("%q: %d lines", message, n)
		}
	}
}

// The next line that is written says how many were not.
func TestALineAboutARefusalCountsThoseBefore(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		var lines logLines
		b.run(func() { b.logger = slog.New(slog.NewTextHandler(&lines, nil)) })
		b.poll()
		refused := func() {
			if r := b.do(control.Command{Action: "stop", Sources: []string{"nobody"}}); r.OK {
				t.Errorf("%+v", r)
			}
		}
		for range 1000 {
			refused()
		}
		if n := lines.count("a command is refused"); n != 5 {
			t.Errorf("%d lines of 1000 at once", n)
		}
		time.Sleep(10 * time.Second)
		refused()
		if n := lines.count("not_logged_before=995"); n != 1 {
			t.Errorf("%d lines say that 995 were not written", n)
		}
	})
}
