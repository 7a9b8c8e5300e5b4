package e2e

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"crawlkeeper/internal/testenv"
)

const killedText = "crawler ended before this run was finished (signalled: signal SIGKILL)"

// checkKilled checks a run whose crawler was killed at some moment: it is marked, with the time and the words of that end.
func (w *world) checkKilled(r run, pid int, killed time.Time) {
	w.t.Helper()
	if r.status != "interrupted" || r.error != killedText {
		w.t.Errorf("the run is %s: %q, want interrupted: %q", r.status, r.error, killedText)
	}
	const slack = 10 * time.Millisecond // wall clocks of two processes
	if late := r.finished.Sub(killed); late < -slack || r.finished.After(time.Now()) {
		w.t.Errorf("the run was finished %v after the kill", late)
	}
	w.until("the evidence has the same end", `select ended_at = $2 and signal = 'SIGKILL' and cause = 'signalled' from crawl_processes where pid = $1`, pid, r.finished)
}

func TestFeedCrawlerKilledInATransactionStoresNothing(t *testing.T) {
	t.Parallel()
	w, site := newWorld(t), newSite(t)
	const code = "harbour-news"
	w.configure(feedAdapter(t))
	w.source(code, "feed", site.feed(code), time.Hour)
	locker, err := w.pg.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Readers pass. The crawler's transaction has inserted its items when it wants to write this table.
	if _, err := locker.Exec(t.Context(), `lock table crawl_feed_state in exclusive mode`); err != nil {
		t.Fatal(err)
	}
	m := w.run("test")
	first := w.running(code)
	open := w.openRun(code)
	w.until("the transaction is half done", `select exists (select from pg_stat_activity where datname = current_database()
		and wait_event_type = 'Lock' and query like '%crawl_feed_state%')`)

	killed := kill(t, first.Pid)
	marked := w.ended(open.id)
	t.Logf("figure: the run was marked %v after SIGKILL", time.Since(killed).Round(time.Millisecond))
	w.checkKilled(marked, first.Pid, killed)
	if got := w.guids(code); len(got) != 0 {
		t.Errorf("%d items are half stored", len(got))
	}
	second := w.running(code, first.Pid)
	if second.Restarts != 1 {
		t.Errorf("%d restarts", second.Restarts)
	}
	if err := locker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := w.succeeded(code, killed)
	if r.trigger != "startup" {
		t.Errorf("the next run has the trigger %q", r.trigger)
	}
	if diff := cmp.Diff(site.items(code), w.guids(code)); diff != "" {
		t.Errorf("(-site +stored):\n%s", diff)
	}
	if !w.holds(`select bool_and(run_id = $1) from crawl_feed_items`, r.id) {
		t.Error("items of a run that was interrupted are stored")
	}
	m.stop()
}

func TestManagerKilledLeavesNothingButOpenRuns(t *testing.T) {
	t.Parallel()
	w, site := newWorld(t), newSite(t)
	w.configure(feedAdapter(t))
	codes := append([]string{hanging}, steady...)
	for _, code := range codes {
		w.source(code, "feed", site.feed(code), time.Hour)
	}
	first := w.run("first")
	for _, code := range steady {
		w.succeeded(code, time.Time{})
	}
	site.wait("/feeds/"+hanging+".xml", site.times("/feeds/"+hanging+".xml")-1)
	open := w.openRun(hanging)
	before := map[string]int{}
	for _, code := range codes {
		before[code] = w.running(code).Pid
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	first.end()
	w.eventually("no crawler is left", func() bool { return len(testenv.Bearing(t, first.mark)) == 0 })
	if got := w.oneRun(`where id::text = $1`, open.id); got.status != "running" {
		t.Fatalf("the run has ended already, the test shows nothing: %+v", got)
	}

	started := time.Now()
	second := w.run("second")
	marked := w.ended(open.id)
	if want := "crawler ended before this run was finished (manager_lost)"; marked.status != "interrupted" || marked.error != want {
		t.Errorf("the run is %s: %q, want interrupted: %q", marked.status, marked.error, want)
	}
	if marked.finished.Before(started) {
		t.Errorf("it was finished at %v, the next manager started at %v", marked.finished, started)
	}
	for _, code := range codes {
		w.running(code, before[code])
	}
	for _, code := range steady {
		w.succeeded(code, started)
	}
	w.until("the rows of the lost crawlers are closed", `select count(*) = 4 from crawl_processes where status = 'exited' and cause = 'manager_lost'`)
	second.stop()
}
