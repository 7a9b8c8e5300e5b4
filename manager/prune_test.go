package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
)

func TestOldRowsAreRemovedSoonAfterTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure("manager: {name: test, status_interval: 100ms, status_ttl: 3s}\nkeep: {processes: 2h, runs: 2h}", standin(t, "*"))
	w.source("a")
	w.pg.Exec(t, `insert into crawl_runs(source_code,status,trigger,started_at,finished_at)
			select 'a','succeeded','schedule',now()-interval '4 hours',now()-interval '3 hours' from generate_series(1,2500);
		insert into crawl_runs(source_code,status,trigger,started_at) values ('a','running','backfill',now()-interval '4 hours'), ('a','failed','schedule',now());
		insert into crawl_logs(source_code,message,created_at) values ('a','old',now()-interval '10 years');
		insert into crawl_processes(id,source,kind,manager,host,boot_id,command,status,queued_at,ended_at)
			select gen_random_uuid(),'a','crawler','','','','[]','exited',now()-interval '4 hours',now()-interval '3 hours' from generate_series(1,10)`)
	w.start()
	w.reports(1)
	eventually(t, "the old rows are gone", func() bool {
		return testenv.Value[int](t, w.pg, `select count(*) from crawl_runs`) == 2 &&
			testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where ended_at is not null`) == 0
	})
	if n := testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where status='running'`); n != 1 {
		t.Errorf("%d processes run", n)
	}
	if n := testenv.Value[int](t, w.pg, `select count(*) from crawl_logs where message='old'`); n != 1 {
		t.Error("a log line did not stay for ever")
	}
}

// prunes is a table with so many old rows, or one that fails.
type prunes struct {
	left  int64
	err   error
	calls []string
	began time.Time
}

func (p *prunes) remove(_ context.Context, what sql.Pruning) (int64, error) {
	p.calls = append(p.calls, fmt.Sprintf("%v %s %v %d", time.Since(p.began).Round(time.Millisecond), what.Collector, p.began.Sub(what.Before), what.Limit))
	if p.err != nil {
		return 0, p.err
	}
	time.Sleep(300 * time.Millisecond) // in the bubble: it takes that long
	n := min(p.left, int64(what.Limit))
	p.left -= n
	return n, nil
}

func TestPruneGoesInSmallSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logs, runs := &prunes{err: errors.New("no right"), began: time.Now()}, &prunes{left: 2001, began: time.Now()}
		p := &pruner{collector: "news", logger: slog.New(slog.NewTextHandler(&log, nil)), tables: []*prunedTable{
			{name: "logs", remove: logs.remove, age: func(k configs.Keep) time.Duration { return k.Logs }},
			{name: "runs", remove: runs.remove, age: func(k configs.Keep) time.Duration { return k.Runs }},
		}}
		p.prune(t.Context(), configs.Keep{})
		if len(logs.calls)+len(runs.calls) > 0 {
			t.Fatalf("rows that stay for ever are removed: %v, %v", logs.calls, runs.calls)
		}
		keep := configs.Keep{Logs: time.Hour, Runs: 2 * time.Hour}
		p.prune(t.Context(), keep)
		if got := strings.Join(runs.calls, ", "); got != "0s news 2h0m0s 1000, 600ms news 2h0m0s 1000, 1.2s news 2h0m0s 1000" {
			t.Errorf("removed at %s", got)
		}
		p.prune(t.Context(), keep)
		logs.err = nil
		p.prune(t.Context(), keep)
		for text, want := range map[string]int{"cannot be removed": 1, "can be removed again": 1, "no right": 1, "rows=2001": 1} {
			if n := strings.Count(log.String(), text); n != want {
				t.Errorf("%q is said %d times:\n%s", text, n, log.String())
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		runs.left, log = 5000, bytes.Buffer{}
		p.prune(ended, keep)
		if runs.left != 5000 || strings.Contains(log.String(), "cannot") {
			t.Errorf("it went on after its end: %d rows are left\n%s", runs.left, log.String())
		}
	})
}
