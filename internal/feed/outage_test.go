package feed

import (
	"net/http"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

// stopLimit is the second in which a crawler must be gone, and one more for a busy
// machine: all that it might wait for by mistake takes ten.
const stopLimit = 2 * time.Second

// newOwnWorld has a Postgres server of its own, for tests that stop it.
func newOwnWorld(t *testing.T) *world {
	t.Helper()
	pg := testenv.OwnPostgres(t)
	if err := migrate(t.Context(), pg.URL(), ""); err != nil {
		t.Fatal(err)
	}
	return worldOn(t, pg)
}

// hanging answers with the start of a feed and then with nothing; it says when it was asked.
func hanging(t *testing.T) (address string, asked <-chan struct{}) {
	t.Helper()
	calls := make(chan struct{}, 10)
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		write(w, atomFeed[:100])
		calls <- struct{}{}
		<-r.Context().Done()
	})
	return u.String(), calls
}

func within(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(soon):
		t.Fatal("it does not happen")
	}
}

func TestStopInTheMiddleOfAFetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pg.Exec(t, "UPDATE sources SET consecutive_failures = 2")
	address, asked := hanging(t)
	stop := w.start()
	w.push(`{"trigger":"schedule","url":%q}`, address)
	within(t, asked)
	w.want("running", lastStatus)
	if took := stop(); took > stopLimit {
		t.Errorf("it took %v to end", took)
	}
	w.want("interrupted "+stoppedText, "SELECT status || ' ' || error FROM crawl_runs WHERE finished_at >= started_at")
	w.want("2", failures)
}

func TestStopWhileIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	testenv.Eventually(t, soon, "a crawler that waits for a tick", func() bool {
		return w.rdb.HExists(t.Context(), beatKey, "at").Val()
	})
	if took := stop(); took > stopLimit {
		t.Errorf("it took %v to end", took)
	}
	testenv.Eventually(t, soon, "Redis knows that nobody waits any more", func() bool { // what comes before goes to nobody
		clients, err := w.rdb.InfoMap(t.Context(), "clients").Result()
		return err == nil && clients["Clients"]["blocked_clients"] == "0"
	})
	w.push(`{"trigger":"schedule"}`)
	if left := w.rdb.LLen(t.Context(), ticks).Val(); left != 1 {
		t.Errorf("%d ticks are left, want 1", left)
	}
}

// Servers that hang hold up nothing: the run stays open, for the manager to mark.
func TestStopWhileServersHang(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t)
	address, asked := hanging(t)
	stop := w.start()
	w.push(`{"trigger":"schedule","url":%q}`, address)
	within(t, asked)
	w.pg.Pause(t)
	w.redis.Pause(t)
	took := stop()
	w.pg.Continue(t)
	w.redis.Continue(t)
	if took > stopLimit {
		t.Errorf("it took %v to end", took)
	}
}

func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"with its data": true, "empty": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := newSite(t, 10, hoursAgo(1))
			w.redis.Stop(t) // away at the start
			w.start()
			for i := range 2 {
				w.redis.Start(t, keep)
				w.push(`{"url":%q}`, s.url)
				w.closed(i + 1)
				w.want("succeeded", lastStatus)
				w.redis.Stop(t)
			}
			w.redis.Start(t, keep)
		})
	}
}

// A list key of another type is waited out.
func TestListKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSite(t, 10, hoursAgo(1))
	w.rdb.Set(t.Context(), ticks, "x", 0)
	w.start()
	testenv.Eventually(t, soon, "BLPOP was refused", func() bool {
		return w.rdb.Info(t.Context(), "errorstats").Val() != "# Errorstats\r\n"
	})
	w.rdb.Del(t.Context(), ticks)
	w.push(`{"url":%q}`, s.url)
	w.closed(1)
}

// Postgres goes away while the feed is being fetched: what was fetched is stored when it is back.
func TestPostgresRestartsInARun(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-answer
		write(w, rssOf([]time.Time{hoursAgo(1)}))
	})
	w.start()
	w.push(`{"url":%q}`, address)
	within(t, asked)
	w.pg.Stop(t)
	close(answer)
	beat := w.rdb.HGet(t.Context(), beatKey, "at").Val()
	testenv.Eventually(t, soon, "the heartbeat goes on", func() bool {
		return w.rdb.HGet(t.Context(), beatKey, "pages").Val() == "1" && w.rdb.HGet(t.Context(), beatKey, "at").Val() > beat
	})
	w.pg.Start(t)
	w.closed(1)
	w.want("succeeded", lastStatus)
	w.want("1", itemCount)
	w.want("1", "SELECT items FROM crawl_run_facts")
}

// A tick that comes while Postgres is away becomes one run when it is back.
func TestPostgresIsAwayWhenATickComes(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t)
	s := newSite(t, 10, hoursAgo(1))
	w.pg.Stop(t)
	w.start()
	w.push(`{"trigger":"startup","url":%q}`, s.url)
	testenv.Eventually(t, soon, "the tick is taken", func() bool { return w.rdb.LLen(t.Context(), ticks).Val() == 0 })
	w.pg.Start(t)
	w.closed(1)
	w.want("1", "SELECT count(*) FROM crawl_runs")
	w.want("1", itemCount)
}

// A commit whose answer was lost is not made twice.
func TestLostAnswersOfCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, err := newStore(w.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer st.close(soon)
	r := &run{tick: tick{Trigger: "schedule"}, started: now()}
	for i := range 3 {
		if err := st.openRun(t.Context(), r, i > 0); err != nil {
			t.Fatal(err)
		}
	}
	w.want("1", "SELECT count(*) FROM crawl_runs")
	p := page{Items: []item{{Key: "a"}}}
	for range 3 {
		if _, err := st.savePage(t.Context(), r, p, &ending{status: succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	w.want("1", "SELECT items FROM crawl_run_facts")
	if err := st.closeRun(t.Context(), r, ending{status: failed}); err != nil {
		t.Fatal(err)
	}
	w.want("succeeded", lastStatus)
	w.want("0", failures)
}

// A database without our tables costs the tick and says so; the crawler stays.
func TestDatabaseThatWasNotMigrated(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	w := worldOn(t, pg)
	s := newSite(t, 10, hoursAgo(1))
	w.start()
	w.push(`{"url":%q}`, s.url)
	testenv.Eventually(t, soon, "the tick is taken", func() bool { return w.rdb.LLen(t.Context(), ticks).Val() == 0 })
	if err := migrate(t.Context(), pg.URL(), ""); err != nil {
		t.Fatal(err)
	}
	w.push(`{"url":%q}`, s.url)
	testenv.Eventually(t, soon, "a run that succeeded", func() bool { return w.row(lastStatus) == succeeded })
}
