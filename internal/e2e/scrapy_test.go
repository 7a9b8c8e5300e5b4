package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// slowPage takes long enough to be interrupted in the middle.
const slowPage = "/slow"

// root is the folder of the repository, where the example's configuration wants to be run.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".venv", "bin", "scrapy")); err != nil {
		t.Fatalf("Scrapy is not installed in .venv: run `make setup` once (%v)", err)
	}
	return dir
}

// TestScrapyProject is one story, as spiders are slow to start: what three of them do from the start of a manager to its end.
func TestScrapyProject(t *testing.T) {
	t.Parallel()
	w, site := newWorld(t), newSite(t)
	const headlines, articles, feed = "headlines", "articles", "my-feed"
	w.source(headlines, "scrapy-redis", site.section("city-gazette"), 2*time.Second)
	w.source(articles, "", site.section("harbour-news"), 2*time.Second)
	w.source(feed, "rss", site.feed("alpine-almanac"), 2*time.Second)
	w.pg.Exec(t, `update sources set consecutive_failures = 3`)
	dir := root(t)
	began := time.Now()
	m := w.runIn("test", dir, filepath.Join(dir, "examples", "scrapy", "crawlkeeper.yaml"))

	// Ticks are taken, runs closed, items stored.
	for _, code := range []string{articles, feed} {
		if r := w.succeeded(code, time.Time{}); r.trigger != "startup" {
			t.Errorf("the first run of %s has the trigger %q", code, r.trigger)
		}
	}
	for code, want := range map[string][]string{
		headlines: site.pages("city-gazette"), articles: site.pages("harbour-news"), feed: site.items("alpine-almanac"),
	} {
		w.until(code+" has stored what there is", `select count(*) >= $2 from crawl_feed_items where source = $1`, code, len(want))
		if diff := cmp.Diff(want, w.guids(code)); diff != "" {
			t.Errorf("%s (-site +stored):\n%s", code, diff)
		}
	}
	t.Logf("figure: three spiders have crawled their first tick %v after the start of the manager", time.Since(began).Round(100*time.Millisecond))
	site.wait("/sections/city-gazette", 1) // the stock spider takes the next tick, too
	if !w.holds(`select sum(consecutive_failures) = 3 from sources`) {
		t.Error("a success ends a row of failures, except for the stock spider, which knows nothing of them")
	}
	if !w.holds(`select count(*) = 0 from crawl_runs where source_code = $1`, headlines) {
		t.Error("the stock spider has runs")
	}

	w.restartByRedisCLI(feed)
	w.killInSlowPage(site, articles)

	// The end, again in the middle of a slow page. Scrapy waits for the page, and leaves the run to the manager.
	site.wait(slowPage, site.times(slowPage))
	open := w.openRun(articles)
	m.stop()
	if r := w.oneRun(`where id::text = $1`, open.id); r.status != "interrupted" || r.finished.IsZero() {
		t.Errorf("the run that was open at the end: %+v", r)
	}
	if !w.holds(`select count(*) = 0 from crawl_runs where status not in ('succeeded', 'interrupted')`) {
		t.Error("there are runs that neither succeeded nor were interrupted")
	}
}

// restartByRedisCLI restarts a spider as the README has it.
func (w *world) restartByRedisCLI(code string) {
	w.t.Helper()
	before := w.running(code)
	asked := time.Now()
	w.publish(`{"action": "restart", "source": "` + code + `", "by": "somebody"}`)
	after := w.running(code, before.Pid)
	w.t.Logf("figure: another spider runs %v after the restart was published", time.Since(asked).Round(time.Millisecond))
	if after.LastExit == nil || after.LastExit.Signal != "" || after.LastExit.Code == nil || *after.LastExit.Code != 0 {
		w.t.Errorf("the spider before it ended with %+v", after.LastExit)
	}
	w.until("the restarted spider succeeds", `select exists (select from crawl_runs where source_code = $1 and status = 'succeeded' and trigger = 'restart')`, code)
	w.until("it is written who asked", `select exists (select from crawl_processes where pid = $1 and status = 'exited' and exit_code = 0 and asked_by like '%(somebody)')`, before.Pid)
	w.until("the log says it", `select exists (select from crawl_logs where source_code = $1 and level = 'INFO' and message like '%asked for by %(somebody)%')`, code)
}

// killInSlowPage kills a spider while it waits for a page: its run is interrupted, and the next spider crawls that page.
func (w *world) killInSlowPage(site *site, code string) {
	w.t.Helper()
	w.payload(code, site.url+slowPage+"?seconds=3")
	site.wait(slowPage, 0)
	before, open := w.running(code), w.openRun(code)
	killed := kill(w.t, before.Pid)
	marked := w.ended(open.id)
	w.t.Logf("figure: the run of the spider was marked %v after SIGKILL", time.Since(killed).Round(time.Millisecond))
	w.checkKilled(marked, before.Pid, killed)
	w.eventually("the status tells of the kill", func() bool {
		last := w.record(code).LastExit
		return last != nil && last.Signal == "SIGKILL"
	})
	next := w.succeeded(code, killed)
	w.t.Logf("figure: the next spider has crawled the page %v after SIGKILL", time.Since(killed).Round(100*time.Millisecond))
	if next.trigger != "startup" {
		w.t.Errorf("the next run has the trigger %q", next.trigger)
	}
	if !w.holds(`select array_agg(run_id) = array[$2::text] from crawl_feed_items where source = $1 and title = 'Slow page'`, code, next.id) {
		w.t.Error("the page is not stored once, by the run that crawled it")
	}
	if got := w.record(code); got.Restarts != 1 {
		w.t.Errorf("%d restarts", got.Restarts)
	}
}
