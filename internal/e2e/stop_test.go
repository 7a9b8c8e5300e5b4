package e2e

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
)

func TestFeedCrawlerEndsAtOnce(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"idle": false, "in the middle of a page": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, site := newWorld(t), newSite(t)
			w.source(hanging, "feed", site.feed(hanging), time.Hour)
			p := w.start("", w.environ("CRAWLKEEPER_SOURCE="+hanging), crawlkeeper(t), "crawl-feed", "--url", site.feed(hanging))
			w.eventually("it waits for a tick", func() bool {
				clients, err := w.rdb.ClientList(t.Context()).Result()
				return err == nil && strings.Contains(clients, "cmd=blpop")
			})
			if busy {
				if err := w.rdb.LPush(t.Context(), "crawler:"+hanging+":start_urls", `{"trigger": "schedule"}`).Err(); err != nil {
					t.Fatal(err)
				}
				site.wait("/feeds/"+hanging+".xml", 0)
			}
			exit, took := p.terminate()
			if exit.Code != 0 {
				t.Errorf("it ended with %v", exit)
			}
			if took > 10*time.Second { // a second is what it promises; the machines are shared
				t.Errorf("it took %v", took)
			}
			t.Logf("figure: crawl-feed (%s) ended %v after SIGTERM", name, took.Round(time.Millisecond))
			runs := 0
			if busy {
				runs = 1
			}
			if !w.holds(`select count(*) = $1 and coalesce(bool_and(status = 'interrupted' and finished_at is not null), true) from crawl_runs`, runs) {
				t.Error("its run was not closed as interrupted")
			}
		})
	}
}

// Who is paged reads the last line: the reason of an end, whatever else had to be said of servers that hang.
func TestTheReasonOfAnEndStandsLast(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	if _, err := sql.Migrate(t.Context(), pg.URL(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	w := worldOf(t, pg)
	w.configure(adapter(t, "*", "tick: bare", testenv.StandIn(t), "-code", "{code}"))
	w.source("a", "plain", "", time.Hour)
	m := w.run("first")
	w.running("a")
	w.pg.Pause(t)
	t.Cleanup(func() { w.pg.Continue(t) })
	successor := `{"name": "second", "host": "elsewhere", "pid": 1}`
	if err := w.rdb.Set(t.Context(), "crawler:manager", successor, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if exit := m.end(); exit.Code != 1 {
		t.Errorf("it ended with %v", exit)
	}
	printed, err := os.ReadFile(m.printed)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(printed)), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "another manager has taken over") {
		t.Errorf("the last line is %s", last)
	}
	if !strings.Contains(string(printed), "its connections were left behind") {
		t.Error("Postgres hung, and nothing was said of it")
	}
}
