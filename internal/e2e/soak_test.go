package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

var (
	soakFor   = flag.Duration("soak", 0, "so much `time` for TestSoak's day, instead of a few seconds")
	soakFleet = flag.Int("soak-crawlers", longFleet, "how `many` crawlers TestSoak has with -soak")
)

const (
	shortSoak, shortFleet = 15 * time.Second, 20
	longSoak, longFleet   = 30 * time.Minute, 200

	day      = 24 * time.Hour
	soakBeat = 50 * time.Millisecond
	steps    = 120       // samples in a day
	keptRows = time.Hour // the least that `keep:` takes
)

// TestSoak is a day of a fleet, compressed: it goes on as ever while everything that happens to fleets happens to it, and takes no more
// at its end than before. What a day brings is in soak_day_test.go, what is looked at in soak_gauges_test.go.
func TestSoak(t *testing.T) {
	t.Parallel()
	length, crawlers := *soakFor, *soakFleet
	switch {
	case length > 0:
	case os.Getenv("CRAWLKEEPER_TEST_LONG") != "":
		length, crawlers = longSoak, longFleet
	default:
		length, crawlers = shortSoak, shortFleet
	}
	s := newSoak(t, length, crawlers)
	defer func() {
		t.Logf("figure: a day in %v, with %d crawlers\n%s\n%s", length, crawlers, s.happened(), s.quarters())
	}()
	s.live()
	s.judge()
	s.evening()
	s.m.stop()
}

// soak is a world in which time goes faster. Everything but what hears answers is done by the goroutine of the test.
type soak struct {
	*world
	m        *manager
	length   time.Duration // that a day takes
	crawlers int
	random   *rand.Rand
	logs     string // folder of log files
	hooks    string // URL of a webhook
	address  string // of the manager's HTTP
	asked    *questions
	readers  *readers

	codes   []string // of sources that stay
	extra   []string // of those that come and go
	added   int      // how many of them there were: no code comes twice
	stopped []string // by a command
	paused  []string
	off     []string       // disabled
	reloads int            // how often the configuration was read anew
	events  map[string]int // how often what happened
	samples []sample
}

func newSoak(t *testing.T, length time.Duration, crawlers int) *soak {
	t.Helper()
	s := &soak{
		world: newWorld(t), length: length, crawlers: crawlers, random: rand.New(rand.NewPCG(1, uint64(crawlers))), logs: t.TempDir(),
		events: make(map[string]int),
	}
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	s.hooks = server.URL
	s.writeConfig()
	for i := range crawlers {
		s.codes = append(s.codes, fmt.Sprintf("s%03d", i))
		s.add(s.codes[i], soakAdapters[i%len(soakAdapters)])
	}
	s.m = s.run("soak")
	holder, _, err := status.ReadHolder(t.Context(), s.rdb, "crawler:manager")
	if err != nil {
		t.Fatal(err)
	}
	s.address = holder.HTTP
	s.asked, s.readers = s.ask(), newReaders(t)
	s.eventually("the fleet is up", func() bool { return s.up() > crawlers*8/10 })
	return s
}

// faster is how much faster time goes.
func (s *soak) faster() float64 { return float64(day) / float64(s.length) }

// here is how long something of a day takes, at least a while.
func (s *soak) here(d, least time.Duration) time.Duration {
	return max(least, time.Duration(float64(d)/s.faster()))
}

// soakAdapters are those of the sources, in turn: most do their work, a few have families, checks or hooks, and one never stays up.
var soakAdapters = strings.Fields(strings.Repeat("plain ", 12) + strings.Repeat("family ", 4) + "checked checked hooked looping")

const logSize = 32 << 10 // of a log file

func (s *soak) writeConfig() {
	s.t.Helper()
	works := fmt.Sprintf("%q, -ticks, -runs, -run-for, 100ms, -obey, -lines, \"500\", -print-every, 1s", testenv.StandIn(s.t))
	text := fmt.Sprintf(`
manager: {disabled: stop}
keep: {processes: %[1]s, runs: %[1]s, logs: %[1]s}
janitor: {schedule: "*/%[2]d * * * * *", remove: true, min_age: %[3]s}
alerts: [{when: cooling, hooks: [{webhook: %[4]q}]}]
defaults:
  pass_urls: true
  stop_timeout: 5s
  backoff: {min: 500ms, max: %[5]s, stable: 5s, jitter: 0.1}
  output: {to: file, dir: %[6]q, max_size: %[7]d, keep: 2, compress: true}
adapters:
  plain: {command: [%[8]s]}
  family: {command: [%[8]s, -children, "1", -setsid, -double-fork, -hold-pipe], limits: {processes: 400, memory: 2GiB}, output: {to: [forward, file]}}
  checked:
    command: [%[8]s, -beat, 1s]
    health:
      - {type: heartbeat, every: 2s, for: 30s, after: 10s}
      - {type: tick_taken, every: 5s, for: 60s}
      - {type: command, command: ["true"], every: 10s, timeout: 10s, action: report}
  hooked:
    command: [%[8]s]
    env: {RELOADED: "%[9]d"}
    hooks:
      start: [{command: ["true"]}]
      final: [{command: ["true"]}]
      failure: [{webhook: %[4]q, retries: 1}]
  looping: {command: [%[10]q, -after, 300ms, -exit, "1", -lines, "20"]}
`, keptRows, int(s.janitorEvery()/time.Second), s.youth(), s.hooks, s.here(5*time.Minute, 5*time.Second), s.logs,
		logSize, works, s.reloads/2, testenv.StandIn(s.t))
	next := s.conf + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(next, s.conf); err != nil {
		s.t.Fatal(err)
	}
}

// janitorEvery is a quarter of an hour, in whole seconds.
func (s *soak) janitorEvery() time.Duration {
	return min(s.here(15*time.Minute, time.Second).Truncate(time.Second), 30*time.Second)
}

func (s *soak) add(code, adapter string) {
	s.t.Helper()
	s.sql(`insert into sources (code, collector, adapter, enabled, interval_seconds) values ($1, 'news', $2, true, $3)`,
		code, adapter, int(s.here(15*time.Minute, time.Second)/time.Second))
}

// live lets the day pass.
func (s *soak) live() {
	beat := time.NewTicker(soakBeat)
	defer beat.Stop()
	began := time.Now()
	for last, aged := began, began; last.Sub(began) < s.length; {
		now := <-beat.C
		s.happen(float64(min(now.Sub(last), 5*soakBeat)) / float64(s.length)) // what was missed does not come all at once
		last = now
		if now.Sub(aged) >= s.length/steps {
			s.age(now.Sub(aged))
			s.sample()
			aged = now
		}
		select {
		case <-s.m.Exited():
			s.t.Fatalf("the manager ended: %v", s.m.Exit())
		default:
		}
	}
}

// age makes rows that are complete older by what a step is shorter than that of a day: `keep:` goes by time, and takes an hour at least.
func (s *soak) age(step time.Duration) {
	s.t.Helper()
	by := time.Duration(float64(step) * (s.faster() - 1))
	for _, statement := range []string{
		`update crawl_processes set queued_at = queued_at - $1::interval, started_at = started_at - $1::interval, ended_at = ended_at - $1::interval where status = 'exited'`,
		`update crawl_runs set started_at = started_at - $1::interval, finished_at = finished_at - $1::interval where finished_at is not null`,
		`update crawl_logs set created_at = created_at - $1::interval`,
	} {
		s.sql(statement, by)
	}
	s.sql(`vacuum`) // the servers of tests have no autovacuum
}

func (s *soak) sql(statement string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(s.t.Context(), statement, args...); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// up is how many crawlers run.
func (s *soak) up() (n int) {
	records, err := status.Read(s.t.Context(), s.rdb, "crawler:status")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range records {
		if r.Phase == "running" {
			n++
		}
	}
	return n
}

// soon waits a little for what should be so at once, and says whether it is.
func (s *soak) soon(ok func() bool) bool {
	limit := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-limit:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return true
}

// tidied waits for what the janitor does: it leaves alone what is young.
func (s *soak) tidied(what string, ok func() bool) {
	s.t.Helper()
	testenv.Eventually(s.t, patience+2*(s.youth()+s.janitorEvery()), what, ok)
}

// youth is what the janitor leaves alone for.
func (s *soak) youth() time.Duration { return s.here(time.Hour, time.Second) }

// evening looks whether the fleet is whole when everything was taken back, and has nothing of what is gone.
func (s *soak) evening() {
	s.t.Helper()
	s.readers.close()
	s.sql(`delete from sources where code = any($1)`, s.extra)
	s.sql(`update sources set enabled = true`)
	s.command("start", "all", nil)
	s.command("resume", "all", nil)
	s.eventually("each command is answered", func() bool { return s.asked.open() == 0 })
	looping := s.crawlers / len(soakAdapters)
	s.eventually("all crawlers run that can", func() bool { return s.up() >= s.crawlers-looping })
	if !s.soon(func() bool { return len(s.strangers()) == 0 }) {
		s.t.Errorf("metrics tell of sources that are gone:\n%s", strings.Join(s.strangers(), "\n"))
	}
	s.tidied("Redis has nothing of sources that are gone", func() bool {
		keys, err := s.rdb.Keys(s.t.Context(), "crawler:x*").Result()
		fields, err2 := s.rdb.HKeys(s.t.Context(), "crawler:last_due").Result()
		return err == nil && err2 == nil && len(keys) == 0 && !strings.Contains(strings.Join(fields, " "), "x")
	})
	s.tidied("the disk has no logs of sources that are gone", func() bool {
		files, err := filepath.Glob(s.logs + "/x*")
		return err == nil && len(files) == 0
	})
	s.until("no row says that somebody runs who does not", `select count(*) <= $1 from crawl_processes where status = 'running' and kind = 'crawler'`, s.crawlers)
	s.tidied("the janitor finds nothing more", func() bool {
		return s.holds(`select sum(found) = 0 from crawl_leaks where at = (select max(at) from crawl_leaks)
			and kind in ('process', 'cgroup', 'temp', 'borrowed', 'process_row', 'run')`)
	})
	s.t.Logf("figure: the janitor has found in the day: %s", value[string](s.world,
		`select string_agg(kind || ' ' || found, ', ' order by kind) from (select kind, sum(found) found from crawl_leaks group by kind) x`))
}
