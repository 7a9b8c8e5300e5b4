package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/internal/testenv/wire"
	"crawlkeeper/sql"
)

const (
	stopTimeout = 2 * time.Second
	statusTTL   = 6 * time.Second
	calmWithin  = 5 * time.Minute // a storm must have calmed down by then
	quietFor    = 8 * time.Second // what is looked at in peace
)

// server is a server that is broken now and then.
type server struct {
	broken atomic.Int32 // how many faults are in it now
	since  atomic.Int64 // when the last of them came or went, in ns of the round
}

// round is one storm over one world.
type round struct {
	t       *testing.T
	seed    uint64
	storm   time.Duration
	began   time.Time
	dir     string // logs and configuration
	tmp     string // temporary folder of managers and crawlers
	conf    string
	binary  string
	world   string // what its crawlers have in their environment
	units   []*unit
	redis   *primary
	pg      *testenv.PG
	reports *testenv.RedisServer // takes what crawlers report; is never broken
	pwire   *wire.Wire
	pgDisk  string        // that Postgres has alone; "" where we may not mount one
	logDisk string        // that log files of crawlers have alone, likewise
	rdb     *redis.Client // past the wire, as what follows
	db      *pgxpool.Pool

	rserver, pserver server
	old              []string     // the environment of the old manager, where that is the one to break
	census           *census      // used by watchProcs, and after its end
	unmigrated       atomic.Int32 // a migration is missing
	over             atomic.Bool  // managers are not started again
	stormCtx         context.Context
	debts            *debts

	mu       sync.Mutex
	wanted   map[string]bool                // guarded by mu; sources that exist: whether they want a crawler
	settling map[string]time.Time           // guarded by mu; sources whose wish is on its way; until when
	leaders  map[string]proc                // guarded by mu; the living leader of each source, as last seen
	sighted  time.Duration                  // guarded by mu; when leaders were last looked for
	seen     map[string]sighting            // guarded by mu; by process id, every leader that was ever seen
	hurt     map[string]injury              // guarded by mu; by process id, what the breaker did to it
	skews    []skew                         // guarded by mu; how the wall clock was ever set
	starved  []span                         // guarded by mu; when this process did not get the processor
	rough    []time.Duration                // guarded by mu; looks at Redis at which it, or the manager, was not well
	touched  map[string][]time.Duration     // guarded by mu; by source, when somebody wanted something of it
	reshaped map[string]bool                // guarded by mu; sources whose interval is not what it was
	asked    []asked                        // guarded by mu; restarts that were answered
	lost     []time.Duration                // guarded by mu; when Redis lost its data
	forgot   []time.Duration                // guarded by mu; when the due times of all cron lines were deleted
	faults   []span                         // guarded by mu; of servers and managers
	lives    []life                         // guarded by mu; managers that have ended
	makers   map[uint32]string              // guarded by mu; whose trees bear these numbers
	notes    []string                       // guarded by mu; the history
	report   *report                        // guarded by mu
	active   atomic.Pointer[holderSeen]     // who held the key when it was last read
	commands atomic.Int64                   // for their ids
	replies  map[string]chan map[string]any // guarded by mu
	told     map[string]bool                // guarded by mu; violations that were said
}

type span struct {
	kind     string
	from, to time.Duration
}

// sighting is when a leader was seen alive.
type sighting struct {
	code        string
	who         incarnation
	tree        uint64
	first, last time.Duration
}

// asked is a restart of a source that was answered with ok.
type asked struct {
	id, code      string
	sent, replied time.Time
}

type injury struct {
	kind string
	at   time.Time
}

func newRound(t *testing.T, seed uint64, storm time.Duration, crawlers int) *round {
	t.Helper()
	r := &round{
		t: t, seed: seed, storm: storm, began: time.Now(), dir: t.TempDir(), tmp: t.TempDir(),
		binary: testenv.BinaryWith(t, "./cmd/crawlkeeper", "clockskew"), world: fmt.Sprintf("%d-%d-%d", os.Getpid(), seed, time.Now().UnixNano()),
		reports: testenv.Redis(t), pgDisk: testenv.Disk(t, 256), logDisk: testenv.Disk(t, 16),
		wanted: make(map[string]bool), settling: make(map[string]time.Time), leaders: make(map[string]proc),
		seen: make(map[string]sighting), hurt: make(map[string]injury), report: newReport(),
		touched: make(map[string][]time.Duration), reshaped: make(map[string]bool),
		replies: make(map[string]chan map[string]any), told: make(map[string]bool), makers: make(map[uint32]string),
	}
	r.debts = newDebts(func(d debt, fair time.Duration) {
		r.violated(d.check, d.key, fmt.Sprintf("%s, for %v", d.what, fair.Round(time.Millisecond)))
	})
	random := rand.New(rand.NewPCG(seed, 1000))
	r.units = []*unit{{r: r, name: "one"}}
	if random.IntN(2) == 1 && !compared() {
		r.units = append(r.units, &unit{r: r, name: "two"})
	}
	r.pg = testenv.OwnPostgresIn(t, r.pgDisk)
	r.pwire = wire.New(t, fmt.Sprintf("127.0.0.1:%d", r.pg.Port()))
	r.redis = newPrimary(t, random.IntN(2) == 1 && !compared())
	r.rdb = r.redis.client(t)
	r.makeDatabase(crawlers)
	r.writeConfig()
	return r
}

// audit notes every change of a run's status, by whomever.
const audit = `
ALTER TABLE crawl_runs ADD COLUMN process text;
CREATE TABLE chaos_marks (run bigint, was text, becomes text, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION chaos_mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO chaos_marks (run, was, becomes) VALUES (new.id, old.status, new.status); RETURN new; END $$;
CREATE TRIGGER chaos_mark AFTER UPDATE ON crawl_runs FOR EACH ROW EXECUTE FUNCTION chaos_mark();`

func (r *round) makeDatabase(crawlers int) {
	r.t.Helper()
	ctx := r.t.Context()
	if _, err := sql.Migrate(ctx, r.pg.URL(), slog.New(slog.DiscardHandler)); err != nil {
		r.t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, r.pg.URL())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(pool.Close)
	r.db = pool
	r.pg.Exec(r.t, audit)
	r.pg.Exec(r.t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database()); END $$`)
	for i := range crawlers {
		code := fmt.Sprintf("s%02d", i)
		r.pg.Exec(r.t, `insert into sources (code, collector, adapter, enabled, interval_seconds) values ($1, 'news', $2, true, $3)`,
			code, adapters[i%len(adapters)], 2+i%3)
		if line := timetables[i/5%len(timetables)]; i%5 == 4 && !compared() {
			r.pg.Exec(r.t, `insert into crawl_source_options (code, schedule, jitter_seconds) values ($1, nullif($2, ''), $3)`, code, line.schedule, line.jitter)
		}
		r.wanted[code] = true
	}
	r.db.Reset()
}

// timetables are what every fifth source has beside its interval.
var timetables = []struct {
	schedule string
	jitter   float64 // in seconds; with what a tick may be late it is less than what lies between two
}{
	{"*/2 * * * * *", 0},
	{"@every 3s", 1},
	{"*/3 * * * * *", 1},
	{"", 1},
}

// adapters are kinds of crawlers: a well behaved one, one with a family that hides, one that hangs on.
var adapters = []string{"plain", "family", "stubborn"}

func (r *round) writeConfig() {
	r.t.Helper()
	standin := testenv.StandIn(r.t)
	works := fmt.Sprintf("%q, -ticks, -runs, -run-for, 300ms, -process-column, -obey, -print-every, 200ms", standin)
	logs := r.logDisk
	if logs == "" {
		logs = r.t.TempDir()
	}
	text := fmt.Sprintf(`
redis: {url: %q}
postgres: {url: %q}
manager: {disabled: stop, status_interval: 1s, status_ttl: %s}
http: {listen: "127.0.0.1:0"}
log: {format: text}
defaults: {pass_urls: true, output: {to: [file], dir: %q, max_size: 64KiB, keep: 1, compress: false}, stop_timeout: %s, backoff: {min: 300ms, max: 2s, stable: 5s, jitter: 0.1}}
adapters:
  plain: {command: [%s, -children, "1"]}
  family: {command: [%s, -children, "1", -setsid, -double-fork, -disguise, -hold-pipe]}
  stubborn: {command: [%s, -ignore-term, -stubborn, "1"], stop_timeout: 700ms}
`, r.redis.url(r.t), r.pwire.URL(r.t, r.pg.URL()), statusTTL, logs, stopTimeout, works, works, works)
	r.conf = filepath.Join(r.dir, "crawlkeeper.yaml")
	if err := os.WriteFile(r.conf, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// environ is the environment of a manager: nothing that this process was told of other servers.
func (r *round) environ(name string) []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		ours := strings.HasPrefix(name, "CRAWLKEEPER_") || name == "TMPDIR" || name == "PATH" && r.old != nil
		if !ours { // of two entries of a name some programs take the first
			env = append(env, entry)
		}
	}
	return append(append(env, r.old...), "CRAWLKEEPER_MANAGER_NAME="+name, "TMPDIR="+r.tmp, "CHAOS_WORLD="+r.world,
		"CLOCK_SKEW_FILE="+r.skewFile(), "STANDIN_LIST=starts", "STANDIN_REDIS="+r.reports.URL())
}

// now is the time of the round, monotonic.
func (r *round) now() time.Duration { return time.Since(r.began) }

func (r *round) keepsUp() bool { return !r.over.Load() }

// wait returns false when the storm is over before the time is.
func (r *round) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.stormCtx.Done():
		return false
	}
}

// run is the whole round.
func (r *round) run() *report {
	ctx, cancel := context.WithCancel(r.t.Context())
	var units, watchers sync.WaitGroup
	r.census = &census{world: r.world, unmarked: r.old != nil, prefixes: make(map[uint32]bool), known: make(map[incarnation]proc), first: make(map[uint64]incarnation)}
	for _, u := range r.units {
		units.Go(u.run)
	}
	for _, watch := range []func(context.Context){r.watchProcs, r.watchRedis, r.watchPostgres, r.hearReplies} {
		watchers.Go(func() { watch(ctx) })
	}
	defer func() {
		r.over.Store(true)
		for _, u := range r.units {
			u.signal(syscall.SIGCONT)
			u.signal(syscall.SIGKILL)
		}
		units.Wait()
		cancel()
		watchers.Wait()
		r.endAll()
	}()
	if !r.calm("before the storm") {
		return r.report
	}
	var before weight
	if r.old == nil {
		before = r.weigh()
	}
	r.blow()
	r.note("storm", "", "is over")
	if r.old == nil && !r.bringBack() || !r.calm("after the storm") && r.old == nil {
		return r.report
	}
	r.beQuiet(ctx)
	if r.old == nil {
		r.checkWeight(before, r.weigh())
	}
	r.stopAll(&units)
	r.checkEnd()
	return r.report
}

// beQuiet looks at some time in which nothing is broken, also not by a machine that is too busy: ticks come in it.
func (r *round) beQuiet(ctx context.Context) {
	for range 10 {
		from := r.now()
		if sleep(ctx, quietFor); !r.roughBetween(from, r.now()) {
			r.checkQuiet(from, r.now())
			return
		}
	}
	r.count("calms that were not judged, as the machine was too busy")
}

// roughBetween tells whether Redis or the manager was not well at some look, or this process did not get to look.
func (r *round) roughBetween(from, to time.Duration) bool {
	r.mu.Lock()
	rough := slices.ContainsFunc(r.rough, func(at time.Duration) bool { return at > from && at < to })
	r.mu.Unlock()
	return rough || r.starvedBetween(from, to)
}

// endAll ends what is left of this round's crawlers: where something is broken, it must not burden the machine.
func (r *round) endAll() {
	for empty := 0; empty < 2; empty++ {
		for _, p := range r.census.take() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
			empty = 0
		}
		sleep(r.t.Context(), 20*time.Millisecond)
	}
}

// blow lets all subjects loose until the storm is over.
func (r *round) blow() {
	ctx, cancel := context.WithTimeout(r.t.Context(), r.storm)
	defer cancel()
	r.stormCtx = ctx
	subjects := r.subjects()
	steps := plan(r.seed, subjects, r.storm)
	var hands sync.WaitGroup
	for _, s := range subjects {
		hands.Go(func() {
			for _, st := range steps[s.name] {
				if !r.wait(st.gap) {
					return
				}
				r.strike(s, st)
			}
		})
	}
	hands.Wait()
}

// strike does one fault, of which others know while it lasts.
func (r *round) strike(s subject, st step) {
	from := r.now()
	r.note("fault", st.kind, fmt.Sprintf("for %v", st.hold.Round(time.Millisecond)))
	for _, f := range s.faults {
		if f.kind == st.kind {
			f.do(r, st)
			break
		}
	}
	r.note("fault", st.kind, "is over")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, span{st.kind, from, r.now()})
	r.report.survived[st.kind]++
}

// calm waits until nothing is owed, three times in a row.
func (r *round) calm(when string) bool {
	began := r.now()
	for still := 0; still < 3; {
		r.debts.await(r.t.Context(), "trees", 3)
		if r.whole() {
			still++
		} else {
			still = 0
		}
		if r.now()-began > calmWithin {
			r.violated("1 everything is well again", when, strings.Join(append(r.debts.open(), r.unwhole()...), "\n\t"))
			return false
		}
	}
	if r.stormCtx != nil {
		r.measure("whole again "+when, 5*time.Second, r.now()-began, "")
	}
	return true
}

func (r *round) whole() bool { return len(r.unwhole()) == 0 && len(r.debts.open()) == 0 }

// unwhole lists what is missing.
func (r *round) unwhole() []string {
	var out []string
	if !r.fair(needRedis | needPostgres) {
		out = append(out, "no manager is active")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for code, wanted := range r.wanted {
		if _, ok := r.leaders[code]; ok != wanted {
			out = append(out, fmt.Sprintf("source %s: wanted %t, runs %t", code, wanted, ok))
		}
	}
	return out
}

// stopAll ends managers as an operator does. A standby would take over: all are asked at once.
func (r *round) stopAll(units *sync.WaitGroup) {
	r.over.Store(true)
	for _, u := range r.units {
		u.signal(syscall.SIGTERM)
	}
	units.Wait()
}

// note adds a line to the history.
func (r *round) note(kind, who, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf("%9.3f %s %-8s %s: %s", r.now().Seconds(), time.Now().UTC().Format("15:04:05.000"), kind, who, what))
}

// violated reports what should never be.
func (r *round) violated(check, who, what string) {
	r.mu.Lock()
	known := r.told[check+who]
	r.told[check+who] = true
	r.mu.Unlock()
	if known {
		return // what stays broken is said once
	}
	r.note("BROKEN", check+" ("+who+")", what)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.broken = append(r.report.broken, fmt.Sprintf("at %.3f s: %s (%s): %s", r.now().Seconds(), check, who, what))
}

// measure notes how long something took that has a bound.
func (r *round) measure(check string, bound, took time.Duration, who string) {
	if took > bound && r.starvedBetween(r.now()-took, r.now()) {
		r.count("times that were not judged, as the machine was too busy")
		return
	}
	r.mu.Lock()
	w := r.report.worst[check]
	w.bound, w.count, w.fair = bound, w.count+1, max(w.fair, took)
	r.report.worst[check] = w
	r.mu.Unlock()
	if took > slack*bound {
		r.violated(check, who, fmt.Sprintf("it took %v", took))
	}
}

func (r *round) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.counts[what]++
}
