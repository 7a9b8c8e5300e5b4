package manager

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
	"crawlkeeper/worker/process"
)

// bench is a fleet in a synctest bubble: fake processes, and lists in memory that keep the script's rules.
type bench struct {
	*fleet
	t    *testing.T
	done chan struct{}

	mu      sync.Mutex
	list    map[string][]string
	last    map[string]time.Time
	pushes  []pushedTick
	err     error            // all pushes fail with it
	bad     map[string]error // pushes of these sources do
	lose    bool             // the answer of the next push is lost
	busy    bool             // crawlers take each tick at once
	hold    chan struct{}    // answers to pushes wait until it is closed
	skew    time.Duration    // what the wall clock was set by
	twice   int              // pushes that were refused, as their due time had gone out
	procs   map[string]*fakeProcess
	past    map[string]sql.History
	pastErr error
	changes []sql.SourceChange
	onPush  func(push) // sees all pushes; may be nil
	marks   []sql.Mark
}

type pushedTick struct {
	code, trigger string
	due           time.Time
	at            moment // when it was pushed
	text          string
}

type fakeProcess struct {
	pid    int
	once   sync.Once
	exited chan struct{}
	exit   process.Exit
	onAsk  func(syscall.Signal) // nil: it ends a second later

	onSignal func(syscall.Signal) // may be nil
}

func (p *fakeProcess) Saw(int64)               {}
func (p *fakeProcess) Sample()                 {}
func (p *fakeProcess) Peak() int64             { return 1 << 20 }
func (p *fakeProcess) Pid() int                { return p.pid }
func (p *fakeProcess) Binary() string          { return "/fake" }
func (p *fakeProcess) StartTime() uint64       { return 1 }
func (p *fakeProcess) Fingerprint() uint64     { return 1 }
func (p *fakeProcess) Exited() <-chan struct{} { return p.exited }
func (p *fakeProcess) OnExit(f func())         { go func() { <-p.exited; f() }() }
func (p *fakeProcess) Exit() process.Exit      { <-p.exited; return p.exit }
func (p *fakeProcess) Kill() error             { p.end(process.Exit{Signal: syscall.SIGKILL}); return nil }
func (p *fakeProcess) Ask(sig syscall.Signal) error {
	if p.onAsk != nil {
		p.onAsk(sig)
		return nil
	}
	time.AfterFunc(time.Second, func() { p.end(process.Exit{}) })
	return nil
}
func (p *fakeProcess) Signal(sig syscall.Signal) error {
	if p.onSignal != nil {
		p.onSignal(sig)
	}
	return nil
}
func (p *fakeProcess) end(e process.Exit) {
	p.once.Do(func() { e.At = time.Now(); p.exit = e; close(p.exited) })
}
func (p *fakeProcess) Sweep(context.Context) (process.Report, error) {
	_ = p.Kill()
	return process.Report{}, nil
}

func (b *bench) Push(pushes []push, done func([]pushResult)) {
	b.mu.Lock()
	out := make([]pushResult, 0, len(pushes))
	for _, p := range pushes {
		out = append(out, b.pushOne(p))
	}
	if b.lose {
		b.lose = false
		for i := range out {
			out[i] = pushResult{err: errAway}
		}
	}
	hold := b.hold
	b.mu.Unlock()
	go func() {
		if hold != nil {
			<-hold
		}
		done(out)
	}()
}

func (b *bench) pushOne(p push) pushResult {
	last, seen := b.last[p.code]
	if b.onPush != nil {
		b.onPush(p)
	}
	switch {
	case b.err != nil:
		return pushResult{err: b.err}
	case b.bad[p.code] != nil:
		return pushResult{err: b.bad[p.code]}
	case p.rule != ruleNow && seen && (last.Equal(p.due) || p.rule == ruleAfter && last.After(p.due)):
		b.twice++
		return pushResult{result: again}
	case len(b.list[p.code]) > 0:
		return pushResult{result: waiting}
	}
	var tick struct{ Trigger string }
	_ = json.Unmarshal(p.tick, &tick)
	if !b.busy {
		b.list[p.code] = append(b.list[p.code], string(p.tick))
	}
	if p.rule != ruleNow {
		b.last[p.code] = p.due
	}
	b.pushes = append(b.pushes, pushedTick{p.code, tick.Trigger, p.due, moment{mono(time.Since(b.clock.began)), time.Now().Round(0).Add(b.skew)}, string(p.tick)})
	return pushResult{result: pushed}
}

func (b *bench) Clean(_ context.Context, code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, known := b.last[code]
	if len(b.list[code]) > 0 && known {
		delete(b.last, code)
		b.inbox.put(func() { b.cleaned(b.sources[code], last) })
	}
	delete(b.list, code)
}

func (b *bench) History(context.Context, []string) (map[string]sql.History, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.past, b.pastErr
}

func (b *bench) setHistory(h sql.History, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.past, b.pastErr = map[string]sql.History{"a": h}, err
}

func (b *bench) Process(sql.Process)                  {}
func (b *bench) Log(sql.LogLine)                      {}
func (b *bench) Mark(m sql.Mark)                      { b.mu.Lock(); b.marks = append(b.marks, m); b.mu.Unlock() }
func (b *bench) MarkLost([]string, time.Time, string) {}
func (b *bench) Change(c sql.SourceChange)            { b.changes = append(b.changes, c) }

// run calls a function in the fleet's goroutine and waits for it.
func (b *bench) run(do func()) {
	query(b.t.Context(), b.fleet, func() struct{} { do(); return struct{}{} })
}

func (b *bench) Flush(context.Context) error { return nil }
func (b *bench) Stats() sql.JournalStats     { return sql.JournalStats{Healthy: true} }

// take pops a source's tick, as its crawler would.
func (b *bench) take(code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.list, code)
}

// sent returns what was pushed since the last call.
func (b *bench) sent() []pushedTick {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.pushes
	b.pushes = nil
	return out
}

func (b *bench) one(what, trigger string) pushedTick {
	b.t.Helper()
	got := b.sent()
	if len(got) != 1 || got[0].trigger != trigger {
		b.t.Fatalf("%s: %+v, want one tick with trigger %s", what, got, trigger)
	}
	return got[0]
}

func (b *bench) nothing(what string) {
	b.t.Helper()
	if got := b.sent(); len(got) != 0 {
		b.t.Errorf("%s: pushed %+v", what, got)
	}
}

// poll says what the database has now.
func (b *bench) poll(rows ...sql.Source) {
	asked := time.Now()
	b.inbox.put(func() { b.rows(rows, true, asked) })
	synctest.Wait()
}

func (b *bench) do(c control.Command) control.Reply {
	b.t.Helper()
	got := make(chan control.Reply, 1)
	c.ID = "1"
	b.inbox.put(func() { b.command(c, func(r control.Reply) { got <- r }) })
	select {
	case r := <-got:
		return r
	case <-time.After(time.Hour):
		b.t.Errorf("no reply to %s", c.Action)
		return control.Reply{}
	}
}

func (b *bench) crash(code string) {
	b.mu.Lock()
	p := b.procs[code]
	b.mu.Unlock()
	p.end(process.Exit{Code: 1})
	synctest.Wait()
}

func row(code string, interval int) sql.Source {
	return sql.Source{Code: code, Adapter: "x", Enabled: true, IntervalSeconds: &interval, BackfillHours: new(24), Wanted: sqlUp}
}

func fleetBubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		end := b.launch(t.Context())
		test(b)
		end()
		time.Sleep(time.Minute) // the second marks
	})
}

// newBench is for use in a bubble.
func newBench(t *testing.T) *bench {
	conf := configs.Default()
	conf.Adapters = map[string]configs.Adapter{"*": conf.Adapters["*"]}
	b := &bench{t: t, list: map[string][]string{}, last: map[string]time.Time{}, procs: map[string]*fakeProcess{}, bad: map[string]error{}, done: make(chan struct{})}
	pid := 100
	b.fleet = &fleet{
		conf: conf, name: "test", logger: slog.New(slog.DiscardHandler), lists: b, history: b, journal: b,
		metrics: status.NewMetrics(status.MetricsOptions{}), publish: func(status.Event) {},
		load: func() (*configs.Config, error) { return conf, nil }, late: func() bool { return false }, bound: func(t time.Time) time.Time { return t },
	}
	b.needs = worker.Needs{Start: func(context.Context, process.Spec) (worker.Process, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		pid++
		return &fakeProcess{pid: pid, exited: make(chan struct{})}, nil
	}}
	b.clock.skew = func() time.Duration {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.skew
	}
	b.init()
	return b
}

// launch runs the fleet until end is called.
func (b *bench) launch(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	go func() { _ = b.Run(ctx); close(b.done) }()
	return func() { stop(); <-b.done }
}

// track makes crash find the processes of a source.
func (b *bench) track(code string) {
	start := b.needs.Start
	b.needs.Start = func(ctx context.Context, s process.Spec) (worker.Process, error) {
		p, err := start(ctx, s)
		b.mu.Lock()
		b.procs[code] = p.(*fakeProcess)
		b.mu.Unlock()
		return p, err
	}
}

func TestTicksOfAnInterval(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.track("a")
		b.poll(row("a", 60))
		start := b.one("at the start", triggerStartup)
		b.nothing("while none is due")
		time.Sleep(60*time.Second - time.Nanosecond)
		b.nothing("a moment before")
		time.Sleep(time.Nanosecond)
		b.nothing("a tick still waits: the due time is dropped")
		b.take("a")
		time.Sleep(59 * time.Second)
		b.nothing("a dropped due time does not come again")
		time.Sleep(time.Second)
		if got := b.one("the next one", triggerSchedule); !got.due.Equal(start.due.Add(120 * time.Second)) {
			t.Errorf("due %v after the start", got.due.Sub(start.due))
		}
		b.crash("a") // with that tick in its list
		time.Sleep(4 * time.Second)
		b.nothing("while the crawler is down")
		time.Sleep(2 * time.Second)
		b.one("the tick that the cleaning deleted comes again", triggerStartup)
	})
}

func TestAPendingTriggerStaysUntilItWentOut(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		r := row("a", 60)
		r.PausedUntil = time.Now().Add(10 * time.Minute)
		b.poll(r)
		b.nothing("while paused")
		time.Sleep(10*time.Minute - time.Nanosecond)
		b.nothing("a moment before the end of the pause")
		time.Sleep(time.Nanosecond)
		b.one("at its end, at once", triggerStartup)
		b.take("a")
		if r := b.do(control.Command{Action: "restart", Sources: []string{"a"}}); !r.OK {
			t.Fatalf("%+v", r)
		}
		b.one("after the restart", triggerRestart)
		b.take("a")
		time.Sleep(time.Minute)
		b.one("then", triggerSchedule)
	})
}

func TestNoTickWhileARestartIsPending(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.poll(row("a", 60))
		b.one("start", triggerStartup)
		b.take("a")
		time.Sleep(59*time.Second + 500*time.Millisecond)
		go b.do(control.Command{Action: "restart", Sources: []string{"a"}}) // the crawler takes a second to end
		time.Sleep(900 * time.Millisecond)
		b.nothing("the regular tick would have been due now")
		time.Sleep(100 * time.Millisecond)
		b.one("after the restart", triggerRestart)
	})
}

func TestDisabledAndEnabled(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		r := row("a", 60)
		r.Enabled = false
		b.poll(r)
		time.Sleep(time.Hour)
		b.nothing("while disabled")
		r.Enabled = true
		b.poll(r)
		b.one("enabled", triggerStartup)
	})
}

func TestPauseInThePastIsNone(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		r := row("a", 60)
		r.PausedUntil = time.Now().Add(-time.Second)
		b.poll(r)
		b.one("start", triggerStartup)
	})
}

func TestHistoryIsReadAnewWithTheTick(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		r := row("a", 60)
		r.History = sql.History{Target: "2026-01-01T00:00:00+00:00"}
		b.setHistory(sql.History{Target: "2026-01-01T00:00:00+00:00", Position: "2026-03-01T00:00:00+00:00"}, nil)
		b.poll(r)
		if got := b.one("start", triggerStartup); !strings.Contains(got.text, `"position": "2026-03-01T00:00:00+00:00"`) {
			t.Error(got.text)
		}
		b.take("a")
		b.setHistory(sql.History{}, errors.New("postgres is away"))
		time.Sleep(time.Minute)
		if got := b.one("postgres away", triggerSchedule); !strings.Contains(got.text, `"position": "2026-03-01T00:00:00+00:00"`) {
			t.Error(got.text)
		}
		b.take("a")
		b.setHistory(sql.History{Target: "2026-01-01T00:00:00+00:00", Done: true}, nil)
		time.Sleep(time.Minute)
		if got := b.one("done", triggerSchedule); strings.Contains(got.text, "history") {
			t.Error(got.text)
		}
	})
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.err = errAway
		b.poll(row("a", 60), row("b", 60))
		time.Sleep(10 * time.Minute)
		b.nothing("redis is away")
		b.mu.Lock()
		b.err = nil
		b.mu.Unlock()
		time.Sleep(5 * time.Second)
		if got := b.sent(); len(got) != 2 {
			t.Errorf("%d ticks follow, want one a source: %+v", len(got), got)
		}
	})
}

func TestALostAnswerIsNoSecondTick(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.lose = true
		b.poll(row("a", 60))
		b.one("the tick", triggerStartup)
		b.take("a") // the crawler has it already when the push is tried again
		time.Sleep(5 * time.Second)
		b.nothing("tried again")
		time.Sleep(55 * time.Second)
		b.one("the next", triggerSchedule)
	})
}

func TestOneBadListHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.bad["a"] = errors.New("WRONGTYPE")
		b.poll(row("a", 60), row("b", 60))
		for range 10 {
			time.Sleep(30 * time.Second)
			b.take("b")
			time.Sleep(30 * time.Second)
		}
		if got := b.sent(); len(got) != 11 || got[0].code != "b" {
			t.Errorf("%d ticks", len(got))
		}
		b.mu.Lock()
		delete(b.bad, "a")
		b.mu.Unlock()
		time.Sleep(time.Minute)
		found := false
		for _, p := range b.sent() {
			found = found || p.code == "a"
		}
		if !found {
			t.Error("the list was mended, and no tick followed")
		}
	})
}

func TestCron(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) { // a bubble begins at midnight, 2000-01-01 UTC
		r := row("a", 60)
		r.Schedule = "30 * * * *"
		b.lost = map[string]time.Time{"b": time.Now().Add(-90 * time.Minute), "c": time.Now().Add(-30 * time.Minute)}
		missed, done := r, r
		missed.Code, done.Code = "b", "c"
		b.poll(r, missed, done)
		if got := b.one("missed while no manager was there", triggerStartup); got.code != "b" || !got.due.Equal(time.Now().Add(-30*time.Minute)) {
			t.Errorf("%+v", got)
		}
		b.take("b")
		time.Sleep(30 * time.Minute)
		if got := b.sent(); len(got) != 3 {
			t.Errorf("%d ticks at half past", len(got))
		}
		b.do(control.Command{Action: "restart", Sources: []string{"a"}}) // deletes its tick
		got := b.one("the tick that the cleaning deleted comes again", triggerRestart)
		if !got.due.Equal(time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC)) {
			t.Errorf("due %v", got.due)
		}
	})
}

func TestAStartThatWaits(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		adapter := b.conf.Adapters["*"]
		adapter.OnStart = configs.OnStartWait
		b.conf.Adapters["*"] = adapter
		cron := row("c", 60)
		cron.Schedule = "@hourly"
		b.poll(row("i", 600), cron)
		time.Sleep(10 * time.Second)
		b.nothing("both wait")
		b.do(control.Command{Action: "restart", All: true})
		b.nothing("also after a restart")
		time.Sleep(10 * time.Minute)
		if got := b.one("an interval later", triggerRestart); got.code != "i" {
			t.Errorf("%+v", got)
		}
	})
}

func TestMissedDueTimes(t *testing.T) {
	t.Parallel()
	for misfire, want := range map[string]int{configs.MisfireOnce: 2, configs.MisfireSkip: 0} {
		t.Run(misfire, func(t *testing.T) {
			t.Parallel()
			fleetBubble(t, func(b *bench) {
				adapter := b.conf.Adapters["*"]
				adapter.Misfire = misfire
				b.conf.Adapters["*"] = adapter
				cron := row("c", 60)
				cron.Schedule = "30 * * * *"
				b.lost = map[string]time.Time{"c": time.Now().Add(-90 * time.Minute)} // one was missed while no manager was there
				b.poll(row("i", 600), cron)
				got := b.sent()
				if len(got) != 1+want/2 {
					t.Errorf("at the start: %+v", got)
				}
				b.take("i")
				b.take("c")
				b.mu.Lock()
				b.err = errAway
				b.mu.Unlock()
				time.Sleep(25*time.Minute + time.Second)
				b.mu.Lock()
				b.err = nil
				b.mu.Unlock()
				time.Sleep(4 * time.Minute) // two due times of i have passed, none of c
				if got := b.sent(); len(got) != want/2 {
					t.Errorf("when redis is back: %+v", got)
				}
				b.take("i")
				time.Sleep(2 * time.Minute) // the next regular ones
				if got := b.sent(); len(got) != 2 {
					t.Errorf("then: %+v", got)
				}
			})
		})
	}
}

func TestTickCommand(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		r := row("a", 60)
		r.Enabled, r.PausedUntil = false, sql.FarFuture
		b.poll(r)
		if got := b.do(control.Command{Action: "tick", Sources: []string{"a"}}); got.Results["a"].Tick != "pushed" {
			t.Errorf("%+v", got)
		}
		b.one("now", triggerManual)
		if got := b.do(control.Command{Action: "tick", Sources: []string{"a"}}); got.Results["a"].Tick != "waiting" {
			t.Errorf("%+v", got)
		}
		b.do(control.Command{Action: "stop", Sources: []string{"a"}})
		if got := b.do(control.Command{Action: "tick", Sources: []string{"a"}}); got.OK || got.Results["a"].Error == "" {
			t.Errorf("%+v", got)
		}
	})
}

func TestPauseStaysOnTopUntilTheDatabaseShowsIt(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		r := row("a", 60)
		b.poll(r)
		b.one("start", triggerStartup)
		b.take("a")
		asked := time.Now()
		b.do(control.Command{Action: "pause", Sources: []string{"a"}, Reason: "why", By: "me"})
		b.inbox.put(func() { b.rows([]sql.Source{r}, true, asked) }) // a poll that began before
		time.Sleep(time.Hour)
		b.nothing("paused")
		b.do(control.Command{Action: "resume", Sources: []string{"a"}})
		b.one("resumed: due at once", triggerSchedule)
		if len(b.changes) != 2 {
			t.Errorf("%+v", b.changes)
		}
	})
}

func TestIntervalsThatAreNone(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		null := row("n", 0)
		null.IntervalSeconds = nil
		cron := row("c", 60)
		cron.Schedule = "every day"
		b.poll(row("z", 0), row("m", -5), row("x", 2_000_000_000), null, cron, row("ok", 60))
		if got := b.sent(); len(got) != 1 || got[0].code != "ok" {
			t.Errorf("%+v", got)
		}
		b.run(func() {
			for code, s := range b.sources {
				if (s.noTicks == "") != (code == "ok") || s.due.wall.IsZero() {
					t.Errorf("%s: %q, due %v", code, s.noTicks, s.due)
				}
			}
		})
	})
}

func TestACommandWithOneUnknownSourceChangesNothing(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.poll(row("a", 60))
		b.one("start", triggerStartup)
		got := b.do(control.Command{Action: "restart", Sources: []string{"a", "nobody"}})
		if got.OK || !strings.Contains(got.Error, "nobody") || len(b.changes) != 0 {
			t.Errorf("%+v %+v", got, b.changes)
		}
		if got := b.do(control.Command{Action: "stop", Adapter: "none"}); got.OK {
			t.Errorf("%+v", got)
		}
	})
}

func TestRollingRestart(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		var rows []sql.Source
		for _, c := range "abcdefghij" {
			rows = append(rows, row(string(c), 3600))
		}
		b.poll(rows...)
		begin := time.Now()
		if got := b.do(control.Command{Action: "restart", All: true, Rolling: true, MaxDown: 2}); !got.OK || len(got.Results) != 10 {
			t.Errorf("%+v", got)
		}
		if took := time.Since(begin); took != 30*time.Second {
			t.Errorf("ten, two at a time, each a second to end and 5 s on trial: took %v", took)
		}
		begin = time.Now()
		b.do(control.Command{Action: "restart", All: true, Stagger: 3 * time.Second})
		if took := time.Since(begin); took != 28*time.Second {
			t.Errorf("nine pauses of 3 s and the last stop: took %v", took)
		}
	})
}

func TestADeletedSourceLeaves(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.poll(row("a", 60), row("b", 60))
		b.sent()
		b.poll(row("a", 60))
		time.Sleep(2 * time.Second)
		b.run(func() {
			if len(b.sources) != 1 {
				t.Errorf("%d sources", len(b.sources))
			}
		})
		b.poll(row("a", 60), row("b", 60))
		if got := b.sent(); len(got) != 1 || got[0].code != "b" || got[0].trigger != triggerStartup {
			t.Errorf("it came back: %+v", got)
		}
	})
}
