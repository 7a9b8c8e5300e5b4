package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The feeds of the demo site.
var steady = []string{"harbour-news", "city-gazette", "alpine-almanac"}

const (
	flaky   = "flaky-tribune"
	hanging = "hanging-post"
)

// feedAdapter is the built-in crawler, with little patience for what hangs.
func feedAdapter(t *testing.T) string {
	t.Helper()
	return adapter(t, "feed", quick, crawlkeeper(t), "crawl-feed", "--read-timeout", "3s")
}

func TestFeedsAreReadAndDoNotHinderEachOther(t *testing.T) {
	t.Parallel()
	w, site := newWorld(t), newSite(t)
	for site.get(flaky, "") != nil {
		site.pass(4 * time.Second)
	}
	w.configure(feedAdapter(t))
	for _, code := range append([]string{flaky, hanging}, steady...) {
		w.source(code, "feed", site.feed(code), time.Second)
	}
	w.pg.Exec(t, `update sources set consecutive_failures = 3 where code = any($1)`, steady)
	m := w.run("test")

	want := map[string][]string{hanging: nil}
	for _, code := range steady {
		if r := w.succeeded(code, time.Time{}); r.trigger != "startup" {
			t.Errorf("the first run of %s has the trigger %q", code, r.trigger)
		}
		want[code] = site.items(code)
		if diff := cmp.Diff(want[code], w.guids(code)); diff != "" {
			t.Errorf("%s (-site +stored):\n%s", code, diff)
		}
	}
	w.until("the failure of "+flaky+" counts", `select consecutive_failures > 0 from sources where code = $1`, flaky)
	if r := w.oneRun(`where source_code = $1 order by started_at limit 1`, flaky); r.status != "failed" || r.error == "" {
		t.Errorf("the first run of %s: %+v", flaky, r)
	}

	for site.get(flaky, "") == nil {
		site.pass(4 * time.Second)
	}
	moved := time.Now()
	for _, code := range append([]string{flaky}, steady...) {
		if r := w.succeeded(code, moved); code != flaky && r.trigger != "schedule" {
			t.Errorf("a later run of %s has the trigger %q", code, r.trigger)
		}
		want[code] = together(want[code], site.items(code))
		w.until(code+" has nothing new", `select exists (select from crawl_feed_state where source = $1 and last_status = 304)`, code)
	}
	w.until("the failure of "+hanging+" counts", `select consecutive_failures > 0 from sources where code = $1`, hanging)
	if r := w.oneRun(`where source_code = $1 order by started_at limit 1`, hanging); r.status != "failed" || !strings.Contains(r.error, "nothing came") {
		t.Errorf("the run of %s: %+v", hanging, r)
	}
	m.stop()

	for code, guids := range want {
		if diff := cmp.Diff(append([]string{}, guids...), w.guids(code)); diff != "" {
			t.Errorf("%s (-site +stored):\n%s", code, diff)
		}
	}
	for what, question := range map[string]string{
		"runs were closed while " + hanging + " hung": `select count(distinct s.source_code) = 3 from crawl_runs h, crawl_runs s where h.source_code = '` + hanging + `'
			and s.source_code = any($1) and s.started_at > h.started_at and s.finished_at < h.finished_at and s.status = 'succeeded'`,
		"each article is stored once":     `select count(*) > 0 and count(*) = count(distinct url) from crawl_feed_items where source = any($1)`,
		"successes end a row of failures": `select sum(consecutive_failures) = 0 from sources where code = any($1)`,
		"each run has a tick of its own and names its process": `select count(*) > 0 and count(distinct f.tick_id) = count(*) and count(p.id) = count(*)
			from crawl_runs r left join crawl_run_facts f on f.run_id = r.id::text left join crawl_processes p on p.id::text = f.process_id
			where r.source_code = any($1) and r.status = 'succeeded'`,
		"no crawler ended before the end": `select count(*) = 3 from crawl_processes where source = any($1)`,
		"nothing is open":                 `select count(*) = 0 from crawl_runs where source_code = any($1) and status = 'running'`,
	} {
		if !w.holds(question, steady) {
			t.Errorf("not so: %s", what)
		}
	}
	t.Logf("figure: %d runs of %d sources, %d items", value[int](w, `select count(*) from crawl_runs`), len(want),
		value[int](w, `select count(*) from crawl_feed_items`))
}
