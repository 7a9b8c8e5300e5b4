package e2e

import (
	"strings"
	"testing"
	"time"
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
