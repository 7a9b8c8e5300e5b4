package chaos

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"crawlkeeper/internal/testenv"
)

func TestWhatAManagerMayLose(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	fault := func(kind string, from, to float64) []span { return []span{{kind, at(from), at(to)}} }
	const killed, itself = true, false
	for _, c := range []struct {
		name     string
		accepted float64
		end      float64
		killed   bool
		silent   bool // it says nothing of what is left
		faults   []span
		halts    []span
		starved  []span
		why      string // what a reason not to lose it speaks of; "" where it may be lost
	}{
		{name: "killed just behind the start", accepted: 29.5, end: 30, killed: killed},
		{name: "killed, as it had time to write", accepted: 28, end: 30, killed: killed, why: "could have written it for 2s"},
		{name: "killed while Postgres is away, started meanwhile", accepted: 12, end: 30, killed: killed, faults: fault("postgres/half open", 10, 40)},
		{name: "killed while Postgres is away, started just before", accepted: 9.5, end: 30, killed: killed, faults: fault("postgres/half open", 10, 40)},
		{name: "killed while Postgres is away, started long before", accepted: 8, end: 30, killed: killed, faults: fault("postgres/half open", 10, 40), why: "for 2s"},
		{name: "killed before it tried again", accepted: 15, end: 24, killed: killed, faults: fault("postgres/hangs", 10, 20)},
		{name: "killed long after Postgres was back", accepted: 15, end: 30, killed: killed, faults: fault("postgres/hangs", 10, 20), why: "for 5s"},
		{name: "killed after a short outage, whose pause is short", accepted: 9.9, end: 13, killed: killed, faults: fault("postgres/connections terminated", 10, 10), why: "for 2.1s"},
		{name: "killed after two outages without a try between them", accepted: 17, end: 27, killed: killed,
			faults: append(fault("postgres/cut off", 22, 23), fault("postgres/killed", 10, 18)...)},
		{name: "killed while a lock is held on its rows", accepted: 12, end: 30, killed: killed, faults: fault("postgres/a lock on crawl_processes", 10, 40)},
		{name: "killed while a lock on others is waited for", accepted: 26, end: 30, killed: killed, faults: fault("postgres/a lock on sources", 10, 40)},
		{name: "killed after a lock on others was waited for", accepted: 26, end: 30, killed: killed, faults: fault("postgres/a lock on sources", 10, 25), why: "for 4s"},
		{name: "killed while a lock is held on others", accepted: 12, end: 30, killed: killed, faults: fault("postgres/a lock on sources", 10, 40), why: "for 18s"},
		{name: "killed by a migration that fails", accepted: 20, end: 30, killed: killed, faults: fault("postgres/a failed migration", 30, 31), why: "for 10s"},
		{name: "killed while Postgres is slow", accepted: 12, end: 30, killed: killed, faults: fault("postgres/slow", 10, 40)},
		{name: "killed while Redis is away", accepted: 12, end: 30, killed: killed, faults: fault("redis/half open", 10, 40), why: "for 18s"},
		{name: "killed without descriptors", accepted: 12, end: 15, killed: killed, faults: fault("manager/no descriptors", 10, 15)},
		{name: "killed while it was stopped", accepted: 9.5, end: 30, killed: killed, halts: fault("stopped", 10, 30)},
		{name: "killed while nobody had a processor", accepted: 9.5, end: 30, killed: killed, starved: fault("", 10, 30)},
		{name: "ended by itself while Postgres hangs", accepted: 12, end: 30, killed: itself, faults: fault("postgres/hangs", 10, 40)},
		{name: "Postgres hung until just before the end", accepted: 12, end: 30, killed: itself, faults: fault("postgres/hangs", 10, 29)},
		{name: "the same, and nothing was said", accepted: 12, end: 30, killed: itself, silent: true, faults: fault("postgres/hangs", 10, 40), why: "did not say"},
		{name: "ended by itself while Postgres answers", accepted: 29.9, end: 30, killed: itself, faults: fault("postgres/hangs", 0, 26), why: "Postgres answered"},
		{name: "ended by itself while others are locked", accepted: 29.9, end: 30, killed: itself, faults: fault("postgres/a lock on crawl_runs", 10, 40), why: "Postgres answered"},
		{name: "ended by itself, without any fault", accepted: 29.9, end: 30, killed: itself, why: "Postgres answered"},
		{name: "ended by itself while Postgres hangs, started long before", accepted: 8, end: 30, killed: itself, faults: fault("postgres/hangs", 10, 40), why: "for 2s"},
		{name: "ended by itself, Postgres was back between two outages", accepted: 2, end: 30, killed: itself,
			faults: append(fault("postgres/hangs", 1, 4), fault("postgres/hangs", 20, 40)...), why: "for 12s"},
	} {
		l := life{to: at(c.end), killed: c.killed, unwritten: !c.silent, halts: c.halts}
		why := l.mayLose(at(c.accepted), c.faults, c.starved)
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, not %q", c.name, why, c.why)
		}
	}
}

// idAt is an id as a process gets it that is queued at a time.
func idAt(at time.Time) string {
	id := uuid.Must(uuid.NewV7())
	for i := range 6 {
		id[i] = byte(at.UnixMilli() >> (40 - 8*i))
	}
	return id.String()
}

// TestWhoseRowsAreLost holds a process against the manager that started it, and no other.
func TestWhoseRowsAreLost(t *testing.T) {
	t.Parallel()
	began := time.Now()
	id := idAt(began.Add(time.Minute))
	const one, two = 7, 8
	killed := func(unit string, from, to time.Duration) life {
		return life{unit: unit, from: from, to: to + 100*time.Millisecond, killed: true}
	}
	for _, c := range []struct {
		name  string
		tree  uint64
		lives []life
		kept  bool
	}{
		{"its manager was killed at once", one << 32, []life{killed("one", 0, time.Minute)}, false},
		{"an earlier one of that name was", one << 32, []life{killed("one", 0, 59*time.Second)}, true},
		{"a later one of that name was", one << 32, []life{killed("one", time.Minute+500*time.Millisecond, time.Minute+600*time.Millisecond)}, true},
		{"the other one was", one << 32, []life{killed("two", 0, time.Minute)}, true},
		{"it is the other one's", two<<32 + 5, []life{killed("one", 0, 2*time.Minute), killed("two", 0, time.Minute)}, false},
		{"it is nobody's", 9 << 32, []life{killed("one", 0, time.Minute), killed("two", 0, time.Minute)}, true},
		{"nobody ended", one << 32, nil, true},
	} {
		r := &round{began: began, makers: map[uint32]string{one: "one", two: "two"}, lives: c.lives}
		if why := r.keepsRow(id, sighting{tree: c.tree}); (why != "") != c.kept {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

func TestWhatAnEndSays(t *testing.T) {
	t.Parallel()
	u := &unit{r: &round{dir: t.TempDir()}, name: "one"}
	for number, c := range map[int]struct {
		log  string
		says bool
	}{
		1: {"12:00:00 INF stopping reason=\"asked to\"\n12:00:00 INF stopped\n", false},
		2: {"12:00:00 ERR a part of the manager did not end well part=journal error=\"6 journal entries were not written: the time for the last attempt is over\"\n", true},
		3: {"12:00:00 WRN a server does not answer; the end does not wait for it\n12:00:00 INF stopped\n", true},
	} {
		if err := os.WriteFile(u.logFile(number), []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if says := u.saysUnwritten(number); says != c.says {
			t.Errorf("%d: %t", number, says)
		}
	}
	if u.saysUnwritten(4) {
		t.Error("an end without a log says something")
	}
}

// TestLostRowsAreCounted looks at all that comes of rows that are missing.
func TestLostRowsAreCounted(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	pg.Exec(t, `create table crawl_runs (id int, source_code text, status text, started_at timestamptz default now(), process text)`)
	pool, err := pgxpool.New(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	began := time.Now()
	marked, open, kept := idAt(began.Add(time.Minute)), idAt(began.Add(time.Minute)), idAt(began.Add(time.Minute))
	pg.Exec(t, `insert into crawl_runs (id, source_code, status, process) values (1, 's01', 'interrupted', $1), (2, 's02', 'running', $2), (3, 's03', 'running', 'another')`, marked, open)
	r := &round{
		t: t, db: pool, began: began, report: newReport(), told: make(map[string]bool), makers: map[uint32]string{1: "one"},
		lives: []life{{unit: "one", to: time.Minute + 500*time.Millisecond, killed: true}},
	}
	r.checkLost(t.Context(), map[string]sighting{marked: {code: "s01", tree: 1 << 32}, open: {code: "s02", tree: 1 << 32}, kept: {code: "s03", tree: 2 << 32}})
	sum := newReport()
	sum.add(r.report)
	text := sum.String()
	for _, part := range []string{"2 violations", "5 each process has a row (" + kept, "4 no run is open at the end whose process lost its row (2)", "  rows lost with a manager: 2\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if text := newReport().String(); !strings.Contains(text, "  rows lost with a manager: 0\n") {
		t.Errorf("where none was lost that is not said:\n%s", text)
	}
}
