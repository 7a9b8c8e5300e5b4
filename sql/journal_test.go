package sql

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"crawlkeeper/internal/testenv"
)

// noon is a time that Postgres stores without loss.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func process(source string) Process {
	return Process{ID: newID(), Source: source, Kind: "crawler", Manager: "m", Host: "h", BootID: "b", Command: []string{"scrapy", "crawl", source},
		Status: ProcessQueued, QueuedAt: noon}
}

func TestProcessRowKeepsEveryField(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	store := open(t, pg)
	j := NewJournal(store, JournalOptions{})
	runJournal(t, j)

	queued, full, parent := process("a"), process("a"), process("b")
	parent.ID = queued.ID
	full.ID, full.Parent, full.Kind = newID(), parent.ID, "hook"
	full.Pid, full.StartTime, full.Fingerprint = 4711, 1<<63+5, 1<<64-2
	full.Command, full.Binary, full.Dir = []string{"a b", `"`, "\\", "ü"}, "/usr/bin/x", "/srv"
	full.Status, full.StartedAt, full.EndedAt = ProcessExited, at(1), at(2)
	full.ExitCode, full.Signal, full.Cause, full.By = new(0), "SIGKILL", "signalled", "the test"
	full.LastLines, full.PeakMemory, full.CPUTime, full.Swept = []string{"one", "", "three"}, 1<<40, 1500*time.Millisecond, 3
	full.Evidence = []string{"pid 7: state D", "", "  tcp"}
	full.FinalOwed = true
	j.Process(queued)
	j.Process(full)
	flush(t, j)

	got, err := store.Processes(t.Context(), ProcessFilter{Source: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Process{full, queued}, got); diff != "" {
		t.Error(diff)
	}
	open, err := store.OpenProcesses(t.Context(), "h")
	if err != nil || len(open) != 1 || open[0].ID != queued.ID {
		t.Errorf("open processes: %v, %v", open, err)
	}
	if tree, err := store.Processes(t.Context(), ProcessFilter{ID: queued.ID}); err != nil || len(tree) != 2 {
		t.Errorf("tree of %s: %v, %v", queued.ID, tree, err)
	}
	if limited, err := store.Processes(t.Context(), ProcessFilter{Limit: 1}); err != nil || len(limited) != 1 || limited[0].ID != full.ID {
		t.Errorf("the youngest: %v, %v", limited, err)
	}
	full.FinalOwed = false // else it would stay
	j.Process(full)
	flush(t, j)
	if n, err := store.PruneProcesses(t.Context(), Pruning{Collector: "news", Before: at(3), Limit: 10}); err != nil || n != 1 {
		t.Errorf("pruned %d, %v", n, err)
	}

	// A row that has exited does not go back, also not by another journal.
	done := queued
	done.Status, done.EndedAt, done.Cause = ProcessExited, at(5), "manager_lost"
	j.Process(done)
	flush(t, j)
	j.Process(queued)
	flush(t, j)
	if got := value[string](t, pg, "SELECT status || cause FROM crawl_processes WHERE id = $1", queued.ID); got != "exitedmanager_lost" {
		t.Errorf("the row became %q", got)
	}
}

func TestAThousandStartsAreAHandfulOfStatements(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	store, count := openCounted(t, pg)
	j := NewJournal(store, JournalOptions{})
	runJournal(t, j)
	j.Log(LogLine{Source: "warm", Level: "INFO", Message: "up", At: noon})
	flush(t, j)
	statements, batches := count.queries.Load(), count.batches.Load()

	var workers sync.WaitGroup
	for i := range 1000 {
		workers.Go(func() {
			p := process(fmt.Sprint("source ", i))
			j.Process(p)
			p.Status, p.StartedAt = ProcessRunning, at(1)
			j.Process(p)
			j.Log(LogLine{Source: p.Source, Level: "INFO", Message: "crawler started", At: at(1)})
		})
	}
	workers.Wait()
	flush(t, j)
	if n := value[int](t, pg, "SELECT count(*) FROM crawl_processes WHERE status = 'running'"); n != 1000 {
		t.Errorf("%d process rows", n)
	}
	if n := value[int](t, pg, "SELECT count(*) FROM crawl_logs WHERE message = 'crawler started'"); n != 1000 {
		t.Errorf("%d log rows", n)
	}
	statements, batches = count.queries.Load()-statements, count.batches.Load()-batches
	t.Logf("%d statements in %d transactions", statements, batches)
	if batches > 20 || statements > 60 {
		t.Errorf("%d statements in %d transactions", statements, batches)
	}
}

// runsTable has one run of each sort for the source a, which ended at the second 10.
const runsTable = `INSERT INTO crawl_runs (id, source_code, status, trigger, started_at) VALUES
	(1, 'a', 'running', 'schedule', $1::timestamptz - interval '1 second'),
	(2, 'a', 'running', 'backfill', $1::timestamptz - interval '1 second'),
	(3, 'a', 'running', null, $1::timestamptz - interval '1 second'),
	(4, 'b', 'running', 'schedule', $1::timestamptz - interval '1 second'),
	(5, 'a', 'succeeded', 'schedule', $1::timestamptz - interval '1 second'),
	(6, 'a', 'running', 'schedule', $1::timestamptz),
	(7, 'a', 'running', 'startup', null)`

const interrupted = "SELECT id, to_char(finished_at, 'HH24:MI:SS.US'), error FROM crawl_runs WHERE status = 'interrupted' ORDER BY id"

func TestMark(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, runsTable, at(10))
	marked := make(map[string]int)
	j := NewJournal(open(t, pg), JournalOptions{OnMarked: func(source string, n int) { marked[source] += n }})
	stop := runJournal(t, j)
	j.Mark(Mark{Source: "a", Ended: at(10), FinishedAt: at(11), Error: "gone: signal \x00 \xff"})
	flush(t, j)
	if got, want := rowsText(t, pg, interrupted), "(1,12:00:11.123456,\"gone: signal \uFFFD \uFFFD\")"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	j.MarkLost([]string{"a", "c"}, at(20), "lost")
	flush(t, j)
	if got := value[[]int64](t, pg, "SELECT array_agg(id ORDER BY id) FROM crawl_runs WHERE error = 'lost'"); fmt.Sprint(got) != "[6 7]" {
		t.Errorf("lost: %v", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(marked) != "map[a:3]" {
		t.Errorf("marked %v", marked)
	}
}

func TestMarksThatWaitTogether(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	for i, started := range []int{5, 15, 16, 25, 35} {
		pg.Exec(t, "INSERT INTO crawl_runs (id, source_code, status, trigger, started_at) VALUES ($1, 'a', 'running', 'schedule', $2)", i, at(started))
	}
	j := NewJournal(open(t, pg), JournalOptions{})
	j.Mark(Mark{Source: "a", Ended: at(20), Error: "second"})
	j.Mark(Mark{Source: "a", Ended: at(10), Error: "first"})
	j.Mark(Mark{Source: "a", Ended: at(10), Error: "first, again"})
	j.Mark(Mark{Source: "a", Ended: at(30), Error: "third"})
	runJournal(t, j)
	flush(t, j)
	want := "(0,12:00:10.123456,first)\n(1,12:00:20.123456,second)\n(2,12:00:20.123456,second)\n(3,12:00:30.123456,third)"
	if got := rowsText(t, pg, interrupted); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := j.Stats().Written; n != 1 {
		t.Errorf("%d entries were written for one source", n)
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, consecutive_failures, paused_until) VALUES
		('a', 'news', 5, 'infinity'), ('b', 'news', 5, 'infinity'), ('c', 'news', 5, 'infinity'), ('d', 'news', 5, 'infinity');
		INSERT INTO crawl_source_options (code, schedule, pause_reason, paused_by, wanted) VALUES ('a', '* * * * *', 'x', 'y', 'stopped'), ('b', '* * * * *', 'x', 'y', 'stopped')`)
	j := NewJournal(open(t, pg), JournalOptions{})
	j.Change(SourceChange{Source: "a", PausedUntil: Some(at(1)), PauseReason: Some("first"), Wanted: Some(WantedUp)})
	j.Change(SourceChange{Source: "a", PausedUntil: Null[time.Time](), ResetFailures: true, PausedBy: Null[string]()})
	j.Change(SourceChange{Source: "b", Wanted: Null[string]()})
	j.Change(SourceChange{Source: "c", ResetFailures: true, PauseReason: Null[string]()})
	j.Change(SourceChange{Source: "d", PausedUntil: Some(FarFuture), PauseReason: Some("site is down"), PausedBy: Some("me")})
	j.Change(SourceChange{Source: "gone", ResetFailures: true, PauseReason: Null[string](), PausedBy: Null[string]()})
	runJournal(t, j)
	flush(t, j)
	want := "(a,,0)\n(b,infinity,5)\n(c,infinity,0)\n(d,\"9999-01-01 00:00:00+00\",5)"
	pg.Exec(t, "SET timezone = 'UTC'")
	got := rowsText(t, pg, "SELECT code, (paused_until AT TIME ZONE 'UTC')::text || CASE WHEN isfinite(paused_until) THEN '+00' ELSE '' END, consecutive_failures FROM sources ORDER BY code")
	if got != want {
		t.Errorf("sources:\n%s\nwant\n%s", got, want)
	}
	want = `(a,"* * * * *",first,,up)` + "\n" + `(b,"* * * * *",x,y,)` + "\n" + `(d,,"site is down",me,)`
	if got := rowsText(t, pg, "SELECT code, schedule, pause_reason, paused_by, wanted FROM crawl_source_options ORDER BY code"); got != want {
		t.Errorf("options:\n%s\nwant\n%s", got, want)
	}
}

func TestEverythingFollowsWhenPostgresIsBack(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	migrate(t, pg)
	pg.Exec(t, "INSERT INTO sources (code, collector, consecutive_failures) VALUES ('a', 'news', 3); INSERT INTO crawl_runs (id, source_code, status, trigger, started_at) VALUES (1, 'a', 'running', 'schedule', '2020-01-01')")
	j := NewJournal(open(t, pg), JournalOptions{})
	stop := runJournal(t, j)
	j.Log(LogLine{Source: "a", Level: "INFO", Message: "before", At: noon})
	flush(t, j)

	pg.Stop(t)
	p := process("a")
	j.Process(p)
	testenv.Eventually(t, time.Minute, "the outage is noticed", func() bool { return !j.Stats().Healthy })
	p.Status = ProcessRunning
	j.Process(p)
	j.Mark(Mark{Source: "a", Ended: at(0), Error: "gone"})
	j.Change(SourceChange{Source: "a", ResetFailures: true})
	j.Log(LogLine{Source: "a", Level: "ERROR", Message: "during", At: at(1)})
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := j.Flush(short); err == nil {
		t.Error("flush succeeded without Postgres")
	}
	testenv.Eventually(t, time.Minute, "all of it waits", func() bool { // but for the moments in which it is tried
		n := j.Stats().Pending
		return n == 3 || n == 4
	})
	pg.Start(t)
	flush(t, j)
	if !j.Stats().Healthy {
		t.Error("not healthy after the outage")
	}
	got := rowsText(t, pg, "SELECT (SELECT status FROM crawl_processes), (SELECT status FROM crawl_runs), (SELECT consecutive_failures FROM sources), (SELECT string_agg(message, ' ' ORDER BY id) FROM crawl_logs)")
	if want := `(running,interrupted,0,"before during")`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	// Killed connections and a frozen server in the middle are an outage like any other.
	for i := range 5 {
		pg.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'crawlkeeper'")
		j.Log(LogLine{Source: "a", Level: "INFO", Message: fmt.Sprint("after ", i), At: at(2 + i)})
		flush(t, j)
	}
	if n := value[int](t, pg, "SELECT count(*) FROM crawl_logs WHERE message LIKE 'after%'"); n != 5 {
		t.Errorf("%d of 5 rows arrived", n)
	}
	pg.Stop(t)
	j.Log(LogLine{Source: "a", Level: "INFO", Message: "too late", At: noon})
	began := time.Now()
	if err := stop(); err == nil {
		t.Error("Run ended without an error although an entry was left")
	}
	if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
		t.Errorf("the last attempt took %v", took)
	}
	pg.Start(t)
}

func TestRunWritesWhatIsLeftAtItsEnd(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	j := NewJournal(open(t, pg), JournalOptions{Delay: time.Hour})
	stop := runJournal(t, j)
	for i := range 2500 {
		j.Log(LogLine{Source: "a", Level: "INFO", Message: fmt.Sprint(i), At: noon})
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, pg, "SELECT count(DISTINCT message) FROM crawl_logs"); n != 2500 {
		t.Errorf("%d rows", n)
	}
}

func TestOneBadEntryDoesNotBlockTheRest(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `ALTER TABLE crawl_logs ADD CONSTRAINT theirs CHECK (message <> 'bad'), ALTER COLUMN message TYPE varchar(20);
		ALTER TABLE crawl_runs ADD CONSTRAINT no_end CHECK (source_code <> 'bad' OR status = 'running'), ALTER COLUMN error TYPE varchar(5);
		INSERT INTO crawl_runs (source_code, status, trigger, started_at) VALUES ('a', 'running', 'x', '2020-01-01'), ('bad', 'running', 'x', '2020-01-01')`)
	j := NewJournal(open(t, pg), JournalOptions{})
	for i := range 100 {
		message := fmt.Sprintf("%d: a message that is too long for their column \x00\xff", i)
		if i%40 == 7 {
			message = "bad"
		}
		j.Log(LogLine{Source: "a", Level: "INFO", Message: message, At: noon})
		j.Process(process(fmt.Sprint("a\x00", i)))
	}
	bad := process("b")
	bad.Status = "asleep"
	j.Process(bad)
	bad = process("b")
	bad.ID = "no uuid"
	j.Process(bad)
	j.Mark(Mark{Source: "bad", Ended: at(1), Error: "refused"})
	j.Mark(Mark{Source: "a", Ended: at(1), Error: "gone with the wind"})
	runJournal(t, j)
	flushPutOff(t, j)
	got := rowsText(t, pg, `SELECT (SELECT count(*) FROM crawl_logs), (SELECT count(*) FROM crawl_processes),
		(SELECT string_agg(source_code || ' ' || status || coalesce(' ' || error, ''), ', ' ORDER BY source_code) FROM crawl_runs)`)
	if want := `(97,100,"a interrupted gone, bad running")`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	stats := j.Stats()
	if stats.Refused != 5 || stats.Pending != 1 || !stats.Healthy {
		t.Errorf("%+v: want 5 refused and the mark pending", stats)
	}
}

// A row that somebody has locked delays only what is written to it.
func TestALockDelaysOnlyWhatItHolds(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "INSERT INTO crawl_runs (source_code, status, trigger, started_at) SELECT 's' || n, 'running', 'x', '2020-01-01' FROM generate_series(1, 8) n")
	tx, err := pg.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE crawl_runs SET error = 'busy' WHERE source_code = 's5'"); err != nil {
		t.Fatal(err)
	}
	j := NewJournal(open(t, pg), JournalOptions{})
	for i := range 8 {
		j.Mark(Mark{Source: fmt.Sprint("s", i+1), Ended: at(1), Error: "gone"})
	}
	j.Process(process("s5"))
	j.Log(LogLine{Source: "s5", Level: "INFO", Message: "up", At: noon})
	runJournal(t, j)
	flushPutOff(t, j)
	const state = "SELECT (SELECT count(*) FROM crawl_runs WHERE status = 'interrupted'), (SELECT count(*) FROM crawl_processes), (SELECT count(*) FROM crawl_logs)"
	if got := rowsText(t, pg, state); got != "(7,1,1)" {
		t.Errorf("beside the lock: %s", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, "the mark follows the lock", func() bool { return rowsText(t, pg, state) == "(8,1,1)" })
}

// A table that somebody has locked delays only what is written to it, also where a connection has to prepare the statements first.
func TestALockedTableDelaysOnlyWhatItHolds(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO sources (code, collector, consecutive_failures) VALUES ('a', 'news', 3)`)
	tx, err := pg.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE sources IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	store := open(t, pg)
	j := NewJournal(store, JournalOptions{})
	change := func() { j.Change(SourceChange{Source: "a", ResetFailures: true}) }
	change()
	j.Process(process("a"))
	runJournal(t, j)
	processes := func(n int64) func() bool {
		return func() bool { return testenv.Value[int64](t, pg, "SELECT count(*) FROM crawl_processes") == n }
	}
	testenv.Eventually(t, time.Minute, "a process is written beside the lock", processes(1))
	store.pool.Reset() // the next connection knows no statement
	change()
	j.Process(process("a"))
	testenv.Eventually(t, time.Minute, "another one by a new connection", processes(2))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, "the change follows the lock", func() bool {
		return rowsText(t, pg, "SELECT consecutive_failures FROM sources") == "(0)"
	})
}

// A change that waits for a lock is not taken for written: neither by Flush nor by Done.
func TestAChangeBehindALockIsNotDone(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, `INSERT INTO sources (code, collector) VALUES ('a', 'news'), ('b', 'news');
		INSERT INTO crawl_source_options (code, wanted) VALUES ('a', 'up'), ('b', 'up')`)
	tx, err := pg.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE crawl_source_options SET paused_by = 'busy' WHERE code = 'a'"); err != nil {
		t.Fatal(err)
	}
	var first, second, other atomic.Int64
	j := NewJournal(open(t, pg), JournalOptions{})
	runJournal(t, j)
	j.Change(SourceChange{Source: "a", Wanted: Some(WantedStopped), Done: func() { first.Add(1) }})
	j.Change(SourceChange{Source: "b", Wanted: Some(WantedStopped), Done: func() { other.Add(1) }})
	flushPutOff(t, j)
	if first.Load() != 0 || other.Load() != 1 {
		t.Errorf("behind the lock: done %d times, beside it %d times", first.Load(), other.Load())
	}
	j.Change(SourceChange{Source: "a", PauseReason: Some("too"), Done: func() { second.Add(1) }})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, "the changes follow the lock", func() bool { return first.Load() == 1 && second.Load() == 1 })
	flush(t, j)
	const state = "SELECT code, wanted, pause_reason FROM crawl_source_options ORDER BY code"
	if got, want := rowsText(t, pg, state), "(a,stopped,too)\n(b,stopped,)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheLastAttemptSeesPostgresComeBack(t *testing.T) {
	t.Parallel()
	pg := testenv.OwnPostgres(t)
	migrate(t, pg)
	j := NewJournal(open(t, pg), JournalOptions{LastAttempt: 30 * time.Second})
	stop := runJournal(t, j)
	pg.Stop(t)
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	j.Log(line(1))
	testenv.Eventually(t, time.Minute, "an attempt fails", func() bool { return !j.Stats().Healthy })
	pg.Start(t)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := value[int](t, pg, "SELECT count(*) FROM crawl_logs"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestLogRowsOfOtherShapes(t *testing.T) {
	t.Parallel()
	const columns = "source_code text, run_id uuid, level text, message text, created_at timestamp"
	for _, c := range []struct {
		name, statement string
		ids             LogIDs
		rows            int
		problem         string
	}{
		{"uuid with default", "CREATE TABLE crawl_logs (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), " + columns + ")", LogIDsGiven, 3, ""},
		{"uuid", "CREATE TABLE crawl_logs (id uuid PRIMARY KEY, " + columns + ")", LogIDsOurs, 3, ""},
		{"text", "CREATE TABLE crawl_logs (id varchar(36) PRIMARY KEY, " + columns + ")", LogIDsOurs, 3, ""},
		{"nullable uuid", "CREATE TABLE crawl_logs (id uuid, " + columns + ")", LogIDsOurs, 3, ""},
		{"identity", "CREATE TABLE crawl_logs (id int GENERATED BY DEFAULT AS IDENTITY, " + columns + ")", LogIDsGiven, 3, ""},
		{"integer", "CREATE TABLE crawl_logs (id integer PRIMARY KEY, " + columns + ")", LogIDsNone, 0, "crawl_logs.id is of type integer and has no default"},
		{"another column", "CREATE TABLE crawl_logs (id serial, tenant int NOT NULL, " + columns + ")", LogIDsNone, 0,
			"crawl_logs.tenant must not be null and has no default"},
		{"view", "CREATE TABLE lines (id serial PRIMARY KEY, " + columns + "); CREATE VIEW crawl_logs AS SELECT * FROM lines", LogIDsGiven, 3, ""},
		{"view of uuid", "CREATE TABLE lines (id uuid PRIMARY KEY, " + columns + "); CREATE VIEW crawl_logs AS SELECT * FROM lines", LogIDsOurs, 3, ""},
		{"source must not be null", "CREATE TABLE crawl_logs (id serial, " + strings.Replace(columns, "text", "text NOT NULL", 1) + ")", LogIDsGiven, 3, ""},
		{"source must exist", "CREATE TABLE crawl_logs (id serial, " + strings.Replace(columns, "text", "text NOT NULL REFERENCES sources (code)", 1) + ")",
			LogIDsGiven, 3, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pg := migrated(t)
			pg.Exec(t, "DROP TABLE crawl_logs; "+c.statement)
			store := open(t, pg)
			shape, err := store.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if shape.LogIDs != c.ids || shape.LogProblem != c.problem {
				t.Errorf("ids %q, problem %q", shape.LogIDs, shape.LogProblem)
			}
			pg.Exec(t, "INSERT INTO sources (code, collector) VALUES ('a', 'news')")
			j := NewJournal(store, JournalOptions{})
			runJournal(t, j)
			for i := range 3 {
				j.Log(LogLine{Source: "a", Level: "INFO", Message: fmt.Sprint(i), At: at(i)})
			}
			flush(t, j)
			rows, err := store.Logs(t.Context(), LogFilter{})
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rows {
				if row.Message != fmt.Sprint(i) || !row.CreatedAt.Equal(at(i)) || row.ID == "" {
					t.Errorf("row %d is %+v", i, row)
				}
			}
			if len(rows) != c.rows || j.Stats().Refused != 0 {
				t.Errorf("%d rows, %+v", len(rows), j.Stats())
			}
		})
	}
}

// A database that is not migrated yet, or not any more, is waited for.
func TestJournalWaitsForTheMigration(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	pg.Exec(t, otherShape)
	j := NewJournal(open(t, pg), JournalOptions{})
	runJournal(t, j)
	j.Process(process("a"))
	testenv.Eventually(t, time.Minute, "a failed attempt", func() bool { return !j.Stats().Healthy })
	migrate(t, pg)
	flush(t, j)
	if n := value[int](t, pg, "SELECT count(*) FROM crawl_processes"); n != 1 {
		t.Errorf("%d rows", n)
	}
}
