package feed

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

func hoursAgo(hours float64) time.Time {
	return time.Now().Add(-time.Duration(hours * float64(time.Hour))).Truncate(time.Second)
}

func TestTickBecomesRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSite(t, 10, hoursAgo(1), hoursAgo(2))
	s.etag = "v"
	w.start()
	w.push(`{"trigger":"startup","backfill_hours":24,"tick_id":"tick-1","due_at":"x","url":%q}`, s.url)
	w.closed(1)
	w.want("succeeded startup null "+source, "SELECT concat_ws(' ', status, trigger, coalesce(error, 'null'), source_code) FROM crawl_runs")
	w.want("true", "SELECT bool_and(finished_at >= started_at AND started_at > now() - interval '1 minute') FROM crawl_runs")
	w.want("tick-1 process-1 2 1", "SELECT concat_ws(' ', tick_id, process_id, items, pages) FROM crawl_run_facts f JOIN crawl_runs r ON f.run_id = r.id::text")
	w.want("2", "SELECT count(*) FROM crawl_feed_items i JOIN crawl_runs r ON i.run_id = r.id::text WHERE url LIKE 'http://%' AND title LIKE 'at %'")

	w.push(`{"trigger":"schedule","backfill_hours":24,"url":%q}`, s.url)
	w.closed(2)
	s.add(hoursAgo(0.1))
	w.push(`{"trigger":"schedule","backfill_hours":24,"url":%q}`, s.url)
	w.closed(3)
	w.want("3", itemCount)
	if got := strings.Join(s.requests(), ","); got != ",304," {
		t.Errorf("asked %q", got)
	}
	w.want("2,0,1", "SELECT string_agg(items::text, ',' ORDER BY run_id::int) FROM crawl_run_facts")

	testenv.Eventually(t, soon, "heartbeat of 3 pages", func() bool {
		return w.rdb.HGet(t.Context(), beatKey, "pages").Val() == "3"
	})
	if items := w.rdb.HGet(t.Context(), beatKey, "items").Val(); items != "3" {
		t.Errorf("heartbeat of %s items", items)
	}
	if at, err := time.Parse(time.RFC3339Nano, w.rdb.HGet(t.Context(), beatKey, "at").Val()); err != nil || time.Since(at) > time.Minute {
		t.Errorf("heartbeat at %v, %v", at, err)
	}
	if ttl := w.rdb.PTTL(t.Context(), beatKey).Val(); ttl <= 0 || ttl > heartbeatTTL {
		t.Errorf("heartbeat expires in %v", ttl)
	}
}

func TestTickShapes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSite(t, 10, hoursAgo(1))
	w.opts.URL = s.url.String() + "?own=1"
	w.start()
	for i, tick := range []string{
		`{"trigger":"startup","backfill_hours":24,"tick_id":"a","url":"` + s.url.String() + `"}`,
		`{"trigger":"schedule","backfill_hours":null}`,
		`{"url":"` + s.url.String() + `","meta":{"trigger":"restart","backfill_hours":24,"tick_id":"b"}}`,
		`{}`,
	} {
		w.push("%s", tick)
		w.closed(i + 1)
		w.want("succeeded", lastStatus)
	}
	w.want("startup,schedule,restart,manual", "SELECT string_agg(trigger, ',' ORDER BY id) FROM crawl_runs")
}

func TestBackfillHours(t *testing.T) {
	t.Parallel()
	for hours, want := range map[string]string{"24": "1", "null": "3", "0": "3", "72": "2", "0.5": "0"} {
		t.Run(hours, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := newSite(t, 10, hoursAgo(1), hoursAgo(48), hoursAgo(480))
			w.start()
			w.push(`{"trigger":"startup","backfill_hours":%s,"url":%q}`, hours, s.url)
			w.closed(1)
			w.want(want, itemCount)
		})
	}
}

// The id of a run may be of any type, with a default or without.
func TestRunIDs(t *testing.T) {
	t.Parallel()
	columns := `source_code varchar, status varchar, trigger varchar, started_at timestamptz, finished_at timestamptz, error varchar`
	for name, tables := range map[string]string{
		"identity":             `CREATE TABLE crawl_runs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ` + columns + `)`,
		"uuid without default": `CREATE TABLE crawl_runs (id uuid PRIMARY KEY, ` + columns + `)`,
		"uuid with default":    `CREATE TABLE crawl_runs (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), ` + columns + `)`,
		"text":                 `CREATE TABLE crawl_runs (id varchar(40) PRIMARY KEY, ` + columns + `)`,
		"view":                 `CREATE TABLE runs (id serial PRIMARY KEY, ` + columns + `); CREATE VIEW crawl_runs AS SELECT * FROM runs`,
		"enum, without zone, more columns": `CREATE TYPE state AS ENUM ('running', 'succeeded', 'failed', 'interrupted');
			CREATE TABLE crawl_runs (id serial PRIMARY KEY, more int DEFAULT 1, source_code text, status state, trigger text,
			started_at timestamp, finished_at timestamp, error text)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, tables)
			s := newSite(t, 10, hoursAgo(1))
			w.start()
			w.push(`{"trigger":"startup","url":%q}`, s.url)
			w.closed(1)
			w.want("succeeded", lastStatus)
			w.want("1", "SELECT count(*) FROM crawl_feed_items i JOIN crawl_runs r ON r.id::text = i.run_id JOIN crawl_run_facts f ON f.run_id = i.run_id")
			w.want("true", "SELECT abs(extract(epoch FROM started_at::timestamptz - (now() AT TIME ZONE 'UTC')::timestamp AT TIME ZONE 'UTC')) < 60 FROM crawl_runs")
		})
	}
}

func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var answer atomic.Pointer[http.HandlerFunc]
	address := serve(t, func(rw http.ResponseWriter, r *http.Request) { (*answer.Load())(rw, r) })
	answers := func(f http.HandlerFunc) { answer.Store(&f) }
	w.start()
	for i, step := range []struct {
		answer         http.HandlerFunc
		tick           string
		status         string
		failures, says string
	}{
		{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "", "failed", "1", "status 500"},
		{func(w http.ResponseWriter, _ *http.Request) { write(w, atomFeed[:300]) }, "", "failed", "2", "parse feed"},
		{func(w http.ResponseWriter, _ *http.Request) { write(w, strings.Repeat("x", 2<<20)) }, "", "failed", "3", "too large"},
		{nil, `garbage`, "failed", "4", "no JSON object"},
		{nil, `{"trigger":"schedule"}`, "failed", "5", "no feed address"},
		{nil, `{"url":"file:///etc/passwd"}`, "failed", "6", "only http and https"},
		{func(w http.ResponseWriter, _ *http.Request) { write(w, atomFeed) }, "", "succeeded", "0", "null"},
		{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "", "failed", "1", "status 404"},
	} {
		if step.answer != nil {
			answers(step.answer)
		}
		if step.tick == "" {
			step.tick = `{"trigger":"schedule","url":"` + address.String() + `"}`
		}
		w.push("%s", step.tick)
		w.closed(i + 1)
		w.want(step.status, lastStatus)
		w.want(step.failures, failures)
		if got := w.row(lastError); !strings.Contains(got, step.says) || strings.Contains(got, "hidden") {
			t.Errorf("step %d: error %q does not say %q", i, got, step.says)
		}
	}
	w.want("1", itemCount)
}

// Two sources of one feed do not share what they have seen.
func TestTwoSourcesOfOneFeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSite(t, 10, hoursAgo(1))
	s.etag = "v"
	stop := w.start()
	w.push(`{"url":%q}`, s.url)
	w.closed(1)
	stop()
	w.opts.Source = "demo-b"
	w.start()
	w.push(`{"url":%q}`, s.url)
	w.closed(2)
	w.want("demo-a,demo-b", "SELECT string_agg(source, ',' ORDER BY source) FROM crawl_feed_items")
}

// What one transaction holds is stored whole or not at all, wherever it fails.
func TestNothingIsHalfStored(t *testing.T) {
	t.Parallel()
	for table, when := range map[string]string{
		"crawl_feed_items": "NEW.guid = 'x'",
		"crawl_feed_state": "true",
		"sources":          "NEW.history_position IS NOT NULL",
		"crawl_run_facts":  "NEW.items > 0",
		"crawl_runs":       "NEW.status = 'succeeded'",
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.pg.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
				CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON `+table+` FOR EACH ROW WHEN (`+when+`) EXECUTE FUNCTION refuse()`)
			address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("ETag", `"a"`)
				write(w, strings.Replace(rssOf(nil), "</channel>", `<item><guid>w</guid></item><item><guid>x</guid><pubDate>Sun, 01 Mar 2026 10:00:00 GMT</pubDate></item></channel>`, 1))
			})
			w.start()
			w.push(`{"trigger":"startup","history":{"target":"2020-01-01T00:00:00+00:00","position":null},"url":%q}`, address)
			w.closed(1)
			w.want("failed", lastStatus)
			if got := w.row(lastError); !strings.Contains(got, "refused") {
				t.Errorf("error %q", got)
			}
			w.want("0", itemCount)
			w.want("0", "SELECT count(*) FROM crawl_feed_state")
			w.want("null f 1", "SELECT concat_ws(' ', coalesce(history_position::text, 'null'), history_done, consecutive_failures) FROM sources")
			w.pg.Exec(t, "DROP FUNCTION refuse CASCADE")
			w.push(`{"trigger":"startup","history":{"target":"2020-01-01T00:00:00+00:00","position":null},"url":%q}`, address)
			w.closed(2)
			w.want("succeeded", lastStatus)
			w.want("2", itemCount)
		})
	}
}

func TestManyItemsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var b strings.Builder
	for i := range 3000 {
		b.WriteString("<item><guid>" + strconv.Itoa(i%1000) + "</guid><title>a\x00\xff</title></item>")
	}
	body := strings.Replace(rssOf(nil), "</channel>", strings.ReplaceAll(b.String(), "\x00\xff", "&#169;")+"</channel>", 1)
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { write(w, body) })
	w.start()
	for i := range 2 {
		w.push(`{"url":%q}`, address)
		w.closed(i + 1)
		w.want("succeeded", lastStatus)
	}
	w.want("1000", itemCount)
}
