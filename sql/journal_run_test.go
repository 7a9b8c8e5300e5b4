package sql

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"
)

// fakeWriter is a database in memory that can be away or refuse entries. Only Run's goroutine writes to it.
type fakeWriter struct {
	fail func(g group) error // nil = all is well

	mu        sync.Mutex // guards all below
	began     []time.Time
	groups    []group
	processes map[string]Process
	runs      []*fakeRun
	sources   map[string]fakeSource
	logs      []string
}

type fakeSource struct {
	until              time.Time
	reason, by, wanted string
	failures           int
}

// apply does what the statements do.
func (s fakeSource) apply(c SourceChange) fakeSource {
	if c.ResetFailures {
		s.failures = 0
	}
	if c.PausedUntil.Given() {
		s.until, _ = c.PausedUntil.Get()
	}
	for _, f := range []struct {
		column *string
		opt    Opt[string]
	}{{&s.reason, c.PauseReason}, {&s.by, c.PausedBy}, {&s.wanted, c.Wanted}} {
		if f.opt.Given() {
			*f.column, _ = f.opt.Get()
		}
	}
	return s
}

type fakeRun struct {
	source   string
	started  time.Time
	finished time.Time // zero = running
}

func newFakeWriter() *fakeWriter {
	w := &fakeWriter{processes: make(map[string]Process), sources: make(map[string]fakeSource)}
	for _, source := range []string{"a", "b", "c"} {
		w.sources[source] = fakeSource{until: at(5), reason: "before", by: "before", wanted: "before", failures: 3}
	}
	return w
}

func (w *fakeWriter) check(context.Context) (Shape, error) { return Shape{LogIDs: LogIDsGiven}, nil }

func (w *fakeWriter) write(_ context.Context, _ Shape, g group) (map[string]int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = append(w.began, time.Now())
	if w.fail != nil {
		if err := w.fail(g); err != nil {
			return nil, err
		}
	}
	w.groups = append(w.groups, g)
	for _, p := range values(g.processes) {
		w.processes[p.ID] = p
	}
	for _, c := range values(g.changes) {
		w.sources[c.Source] = w.sources[c.Source].apply(c)
	}
	for _, l := range values(g.logs) {
		w.logs = append(w.logs, l.Message)
	}
	w.mark(markColumnsOf(g))
	return nil, nil
}

// attempts are the times of all writes so far, also of those that failed.
func (w *fakeWriter) attempts() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.began)
}

func (w *fakeWriter) counts() (processes, logs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.processes), len(w.logs)
}

// markColumnsOf is what the statement gets: source, from, until, end.
func markColumnsOf(g group) (list [][4]any) {
	c := markColumns(values(g.marks), 0)
	for i := range c.Sources {
		list = append(list, [4]any{c.Sources[i], c.Afters[i].Time, c.Endeds[i].Time, c.FinishedAts[i].Time})
	}
	return list
}

// mark does what the statement does. Where several marks fit a run the statement takes any: here the worst, the last one.
func (w *fakeWriter) mark(list [][4]any) {
	for _, r := range w.runs {
		open := r.finished.IsZero()
		for _, m := range list {
			if open && r.source == m[0] && !r.started.Before(m[1].(time.Time)) && r.started.Before(m[2].(time.Time)) {
				r.finished = m[3].(time.Time)
			}
		}
	}
}

var errAway = errors.New("connection refused")

func sqlState(code string) error { return &pgconn.PgError{Code: code, Message: "refused"} }

func quiet(w writer, opts JournalOptions) *Journal {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return newJournal(w, opts)
}

func line(n int) LogLine {
	return LogLine{Source: "a", Level: "INFO", Message: fmt.Sprint(n), At: noon}
}

// inBubble runs a journal in fake time.
func inBubble(t *testing.T, w *fakeWriter, opts JournalOptions, f func(t *testing.T, j *Journal)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		j := quiet(w, opts)
		ended := make(chan error, 1)
		go func() { ended <- j.Run(ctx) }()
		f(t, j)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestGroupsAreGatheredForAFewMilliseconds(t *testing.T) {
	t.Parallel()
	w := newFakeWriter()
	inBubble(t, w, JournalOptions{}, func(t *testing.T, j *Journal) {
		accepted := time.Now()
		for n := range 10 {
			j.Log(line(n))
		}
		time.Sleep(time.Second) // fake time
		if took := w.attempts()[0].Sub(accepted); took != 50*time.Millisecond {
			t.Errorf("committed after %v", took)
		}
		synctest.Wait() // what comes while it writes needs no gathering
		// A full group does not wait.
		accepted = time.Now()
		for n := range 1500 {
			j.Log(line(n))
		}
		synctest.Wait()
		if took := time.Since(accepted); took != 0 {
			t.Errorf("a full group was written after %v", took)
		}
	})
	if first, second := w.groups[0].len(), w.groups[1].len(); first != 10 || second != 1000 || len(w.logs) != 1510 {
		t.Errorf("groups of %d and %d, %d rows", first, second, len(w.logs))
	}
}

func TestWhatComesWhileAGroupIsWrittenIsGatheredToo(t *testing.T) {
	t.Parallel()
	w := newFakeWriter()
	inBubble(t, w, JournalOptions{}, func(t *testing.T, j *Journal) {
		w.fail = func(group) error { // nothing fails; the second line comes meanwhile
			if len(w.groups) == 0 {
				j.Log(line(2))
			}
			return nil
		}
		j.Log(line(1))
		time.Sleep(60 * time.Millisecond) // fake time
		j.Log(line(3))
		time.Sleep(time.Second)
	})
	if len(w.groups) != 2 || w.groups[1].len() != 2 {
		t.Errorf("%d groups of 3 lines", len(w.groups))
	}
}

func TestAGroupThatSomebodyWaitsForIsNotGathered(t *testing.T) {
	t.Parallel()
	w := newFakeWriter()
	inBubble(t, w, JournalOptions{}, func(t *testing.T, j *Journal) {
		accepted := time.Now()
		j.Log(line(1))
		synctest.Wait() // it is being gathered
		if err := j.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(accepted); took != 0 {
			t.Errorf("committed after %v", took)
		}
		j.Log(line(2)) // nobody waits any more
		synctest.Wait()
		if n := len(w.attempts()); n != 1 {
			t.Errorf("%d groups were written", n)
		}
	})
}

func TestBackoffWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	w := newFakeWriter()
	var gone atomic.Bool
	gone.Store(true)
	w.fail = func(group) error {
		if gone.Load() {
			return errAway
		}
		return nil
	}
	inBubble(t, w, JournalOptions{Delay: 3 * time.Millisecond}, func(t *testing.T, j *Journal) {
		j.Log(line(1))
		time.Sleep(30 * time.Second) // fake time
		synctest.Wait()
		var waits []time.Duration
		began := w.attempts()
		for i := 1; i < len(began); i++ {
			waits = append(waits, began[i].Sub(began[i-1]).Truncate(10*time.Millisecond))
		}
		want := []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(waits[:min(len(waits), 8)], want[:8]) {
			t.Errorf("waits %v", waits)
		}
		if s := j.Stats(); s.Healthy || s.Pending != 1 {
			t.Errorf("%+v", s)
		}
		gone.Store(false)
		if err := j.Flush(t.Context()); err != nil || !j.Stats().Healthy {
			t.Errorf("after the outage: %v, %+v", err, j.Stats())
		}
	})
}

func TestTheLastAttemptIsBounded(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			t.Parallel()
			lastAttemptTakes(t, frozenWriter{}, JournalOptions{LastAttempt: limit}, cmp.Or(limit, 3*time.Second))
			away := newFakeWriter()
			away.fail = func(group) error { return errAway }
			lastAttemptTakes(t, away, JournalOptions{LastAttempt: limit}, cmp.Or(limit, 3*time.Second))
			refusing := newFakeWriter()
			refusing.fail = func(group) error { return sqlState(codeNoRight) }
			lastAttemptTakes(t, refusing, JournalOptions{LastAttempt: limit}, 0)
		})
	}
}

// lastAttemptTakes ends a journal that cannot write its mark.
func lastAttemptTakes(t *testing.T, w writer, opts JournalOptions, want time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		j := quiet(w, opts)
		j.Mark(Mark{Source: "a", Ended: noon})
		ended := make(chan error, 1)
		go func() { ended <- j.Run(ctx) }()
		time.Sleep(time.Second) // fake time: the write hangs by now
		cancel()
		began := time.Now()
		if err := <-ended; err == nil {
			t.Error("no error although the mark was left")
		}
		if took := time.Since(began); took != want {
			t.Errorf("the last attempt of %T took %v, want %v", w, took, want)
		}
	})
}

// An outage or a lock that ends in time costs nothing.
func TestTheLastAttemptGoesOnUntilAllIsWritten(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errAway, sqlState(codeLockTimeout)} {
		t.Run(err.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w, done := newFakeWriter(), 0
				back := time.Now().Add(1900 * time.Millisecond)
				w.fail = func(group) error {
					if time.Now().Before(back) {
						return err
					}
					return nil
				}
				j := quiet(w, JournalOptions{})
				j.Change(SourceChange{Source: "a", Wanted: Some("x"), Done: func() { done++ }})
				cancel()
				if err := j.Run(ctx); err != nil {
					t.Error(err)
				}
				if w.sources["a"].wanted != "x" || done != 1 {
					t.Errorf("%+v, done %d times", w.sources["a"], done)
				}
			})
		})
	}
}

// frozenWriter answers nothing.
type frozenWriter struct{}

func (frozenWriter) check(context.Context) (Shape, error) { return Shape{}, nil }
func (frozenWriter) write(ctx context.Context, _ Shape, _ group) (map[string]int, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTheOldestIsDroppedBeyondTheBound(t *testing.T) {
	t.Parallel()
	w := newFakeWriter()
	var gone atomic.Bool
	gone.Store(true)
	w.fail = func(group) error {
		if gone.Load() {
			return errAway
		}
		return nil
	}
	var log bytes.Buffer // written by Run
	inBubble(t, w, JournalOptions{Bound: 100, GroupSize: 30, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, j *Journal) {
		for n := range 250 {
			j.Log(line(n))
			j.Process(Process{ID: fmt.Sprint(n)})
			j.Process(Process{ID: fmt.Sprint(n), Status: ProcessRunning})
			j.Mark(Mark{Source: fmt.Sprint(n), Ended: noon})
			j.Change(SourceChange{Source: fmt.Sprint(n), ResetFailures: true})
		}
		time.Sleep(time.Second) // fake time: some attempts fail
		if s := j.Stats(); s.DroppedLogs != 150 || s.DroppedProcesses != 150 || s.Pending != 700 {
			t.Errorf("%+v", s)
		}
		gone.Store(false)
		if err := j.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(log.String(), `msg="postgres is back" waiting=670 dropped_processes=150 dropped_logs=150`) {
		t.Errorf("log: %s", log.String())
	}
	if len(w.logs) != 100 || w.logs[0] != "150" || w.logs[99] != "249" {
		t.Errorf("%d log rows: %v", len(w.logs), w.logs)
	}
	if len(w.processes) != 100 || w.processes["249"].Status != ProcessRunning || len(w.sources) != 253 {
		t.Errorf("%d processes, %d sources", len(w.processes), len(w.sources))
	}
}

// What is lost makes few lines, and those tell of all of it: rows that are refused one by one, and what comes too fast for a
// database that is well.
func TestWhatIsLostIsInAFewLines(t *testing.T) {
	t.Parallel()
	w := newFakeWriter()
	w.fail = func(g group) error {
		if len(w.began) == 1 {
			time.Sleep(2 * time.Second) // fake time, as below
		}
		if len(g.logs) > 0 {
			time.Sleep(time.Millisecond)
			return sqlState("23514")
		}
		return nil
	}
	var log bytes.Buffer // written by Run
	var journal *Journal
	inBubble(t, w, JournalOptions{Bound: 5000, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, j *Journal) {
		for n := range 5100 {
			j.Log(line(n))
		}
		time.Sleep(time.Second)
		for n := range 5100 {
			j.Log(line(n))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s, text := j.Stats(), log.String()
		if refused := told(text, "rows"); s.Refused == 0 || refused != s.Refused {
			t.Errorf("%d rows were refused, the log tells of %d", s.Refused, refused)
		}
		if dropped := told(text, "dropped_logs"); s.DroppedLogs == 0 || dropped != s.DroppedLogs {
			t.Errorf("%d rows were dropped, the log tells of %d", s.DroppedLogs, dropped)
		}
		if lines := strings.Count(text, "\n"); lines > 8 || !strings.Contains(text, "source=a message=") {
			t.Errorf("%d lines: %s", lines, text)
		}
		journal = j
		j.Log(line(0)) // has its line at once, and the next at the end
		j.Log(line(1))
	})
	if refused, want := told(log.String(), "rows"), journal.Stats().Refused; refused != want {
		t.Errorf("%d rows were refused, at the end the log tells of %d", want, refused)
	}
}

// told adds up the numbers behind a key of log lines.
func told(log, key string) (sum uint64) {
	for _, n := range regexp.MustCompile(" "+key+`=(\d+)`).FindAllStringSubmatch(log, -1) {
		value, _ := strconv.ParseUint(n[1], 10, 64)
		sum += value
	}
	return sum
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{nil, fine},
		{errAway, away},
		{context.DeadlineExceeded, away},
		{sqlState("08006"), away},
		{sqlState("28P01"), away},
		{sqlState("3D000"), away},
		{sqlState("53100"), away},
		{sqlState("57P01"), away},
		{sqlState("25006"), away},
		{sqlState("40P01"), locked},
		{sqlState("55P03"), locked},
		{sqlState("57014"), locked},
		{sqlState("42P01"), misfit},
		{sqlState("42501"), misfit},
		{sqlState("23505"), refused},
		{sqlState("22001"), refused},
		{sqlState("P0001"), refused},
		{fmt.Errorf("commit: %w", sqlState("23502")), refused},
	} {
		if got := judge(c.err); got != c.want {
			t.Errorf("judge(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

// A kind whose table does not fit, or that is locked as a whole, is put off; the others go on and nothing is lost.
func TestAKindThatCannotBeWrittenIsPutOff(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"42P01", "42501", "55P03"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := newFakeWriter()
			var broken atomic.Bool
			broken.Store(true)
			w.fail = func(g group) error {
				if broken.Load() && len(g.logs) > 0 {
					return sqlState(code)
				}
				return nil
			}
			inBubble(t, w, JournalOptions{}, func(t *testing.T, j *Journal) {
				for n := range 200 {
					j.Log(line(n))
					j.Process(Process{ID: fmt.Sprint(n)})
				}
				if err := j.Flush(t.Context()); !errors.Is(err, ErrPutOff) {
					t.Errorf("flush: %v, want ErrPutOff", err)
				}
				synctest.Wait()
				if s := j.Stats(); s.Pending != 200 || s.Refused != 0 || !s.Healthy {
					t.Errorf("%+v", s)
				}
				if n, _ := w.counts(); n != 200 {
					t.Errorf("%d processes", n)
				}
				if n := len(w.attempts()); n > 2*maxLockWaits+10 {
					t.Errorf("%d attempts", n)
				}
				broken.Store(false)
				time.Sleep(misfitDelay + time.Second) // fake time
				synctest.Wait()
				if _, n := w.counts(); n != 200 || j.Stats().Pending != 0 {
					t.Errorf("%+v, %d log rows", j.Stats(), n)
				}
				if err := j.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Whatever is accepted, also while a group is being written, and however often the database is away meanwhile: in the end it
// holds what it would hold if each entry had been written at once, and each run has the first end after its start.
func TestCoalescingLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{w: newFakeWriter(), want: newFakeWriter(), ends: make(map[string][]time.Time)}
		m.j = quiet(m.w, JournalOptions{GroupSize: rapid.IntRange(1, 5).Draw(t, "group size")})
		for _, source := range []string{"a", "b", "c"} {
			for _, started := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 6).Draw(t, "runs of "+source) {
				m.w.runs = append(m.w.runs, &fakeRun{source: source, started: at(started)})
			}
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 4).Draw(t, "step") > 0 {
				m.accept(t)
				continue
			}
			// An attempt that fails: what was taken comes back, behind it what came meanwhile.
			m.w.fail = func(group) error {
				for range rapid.IntRange(0, 3).Draw(t, "meanwhile") {
					m.accept(t)
				}
				return errAway
			}
			before := m.done
			_ = m.j.writeAll(t.Context(), t.Context())
			if m.done != before {
				t.Fatal("a change was done that was not written")
			}
		}
		m.w.fail = nil
		if err := m.j.writeAll(t.Context(), t.Context()); err != nil || m.j.Stats().Pending != 0 {
			t.Fatalf("%v, %+v", err, m.j.Stats())
		}
		m.compare(t)
	})
}

// model accepts entries and knows what the database must hold in the end.
type model struct {
	w, want *fakeWriter
	j       *Journal
	ends    map[string][]time.Time
	logs    int
	changes int
	done    int
}

func (m *model) accept(t *rapid.T) {
	source := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "source")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		p := Process{ID: source, Status: rapid.SampledFrom([]string{ProcessQueued, ProcessRunning, ProcessExited}).Draw(t, "status"),
			Pid: rapid.IntRange(1, 9).Draw(t, "pid")}
		m.j.Process(p)
		if old := m.want.processes[source]; strings.Index(order, p.Status) >= strings.Index(order, old.Status) || old.Status == "" {
			m.want.processes[source] = p
		}
	case 1:
		mark := Mark{Source: source, Ended: at(rapid.IntRange(0, 40).Draw(t, "ended"))}
		m.j.Mark(mark)
		m.ends[source] = append(m.ends[source], mark.Ended)
	case 2:
		c := drawChange(t, source)
		c.Done = func() { m.done++ }
		m.changes++
		m.j.Change(c)
		m.want.sources[source] = m.want.sources[source].apply(c)
	case 3:
		m.j.Log(line(m.logs))
		m.logs++
	}
}

// order is that of a process's states.
const order = "queued running exited"

func drawChange(t *rapid.T, source string) SourceChange {
	draw := func(name string) Opt[string] {
		return rapid.SampledFrom([]Opt[string]{{}, Null[string](), Some("x"), Some("y")}).Draw(t, name)
	}
	return SourceChange{
		Source: source, PauseReason: draw("reason"), PausedBy: draw("by"), Wanted: draw("wanted"),
		PausedUntil:   rapid.SampledFrom([]Opt[time.Time]{{}, Null[time.Time](), Some(at(1)), Some(FarFuture)}).Draw(t, "until"),
		ResetFailures: rapid.Bool().Draw(t, "reset"),
	}
}

func (m *model) compare(t *rapid.T) {
	for id, p := range m.want.processes {
		if g := m.w.processes[id]; g.Status != p.Status || g.Pid != p.Pid {
			t.Fatalf("process %s is %+v, want %+v", id, g, p)
		}
	}
	for source, want := range m.want.sources {
		if got := m.w.sources[source]; got != want {
			t.Fatalf("source %s: %+v, want %+v", source, got, want)
		}
	}
	for _, r := range m.w.runs {
		if first := m.firstEnd(r); !r.finished.Equal(first) {
			t.Fatalf("run of %s from %v has the end %v, want %v", r.source, r.started, r.finished, first)
		}
	}
	for i, message := range m.w.logs {
		if message != fmt.Sprint(i) {
			t.Fatalf("log rows out of order: %v", m.w.logs)
		}
	}
	if m.done != m.changes {
		t.Fatalf("%d of %d changes are done", m.done, m.changes)
	}
	if len(m.w.logs) != m.logs {
		t.Fatalf("%d log rows, want %d", len(m.w.logs), m.logs)
	}
}

// firstEnd is the first end of the run's source after its start; zero = none.
func (m *model) firstEnd(r *fakeRun) (first time.Time) {
	for _, end := range m.ends[r.source] {
		if end.After(r.started) && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	return first
}

// Refused entries among good ones, in any number and place: exactly they are missing in the end.
func TestExactlyTheBadEntriesAreDropped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bad := make(map[string]bool)
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 59), 0, 20).Draw(t, "bad") {
			bad[fmt.Sprint(n)] = true
		}
		w := newFakeWriter()
		w.fail = func(g group) error {
			for _, l := range values(g.logs) {
				if bad[l.Message] {
					return sqlState("23514")
				}
			}
			for _, p := range values(g.processes) {
				if bad[p.ID] {
					return sqlState("22P02")
				}
			}
			return nil
		}
		j := quiet(w, JournalOptions{GroupSize: rapid.IntRange(1, 150).Draw(t, "group size")})
		for n := range 60 {
			j.Log(line(n))
			j.Process(Process{ID: fmt.Sprint(n)})
		}
		if err := j.writeAll(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(w.logs) != 60-len(bad) || len(w.processes) != 60-len(bad) || j.Stats().Refused != uint64(2*len(bad)) {
			t.Fatalf("%d log rows, %d processes, %+v with %d bad", len(w.logs), len(w.processes), j.Stats(), len(bad))
		}
	})
}

func TestMarksOfOneSourceAreBounded(t *testing.T) {
	t.Parallel()
	var ms marks
	for n := range 10_000 {
		ms = mergeMarks(ms, marks{{Source: "a", Ended: at(n)}})
	}
	if len(ms) != maxMarks || !ms[0].Ended.Equal(at(0)) || !ms[len(ms)-1].Ended.Equal(at(9999)) {
		t.Errorf("%d marks from %v to %v", len(ms), ms[0].Ended, ms[len(ms)-1].Ended)
	}
}
