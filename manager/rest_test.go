package manager

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
	"crawlkeeper/worker/hook"
)

// restBench is a bench whose sources' runs are kept in memory, read as the database reads them.
type restBench struct {
	*bench
	runs []*fakeRun // of the source "a", in the order of their starts
}

type fakeRun struct {
	started time.Time
	status  string
	err     string
}

func (b *restBench) Streaks(_ context.Context, queries []sql.StreakQuery, v sql.Verdicts) (map[string]sql.Streak, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, out := queries[0], sql.Streak{}
	only := true
	for _, r := range slices.Backward(b.runs) {
		failed := slices.Contains(v.Failed, r.status) ||
			r.status == "interrupted" && slices.ContainsFunc(v.Crashes, func(p string) bool { return strings.HasPrefix(r.err, p) })
		switch {
		case !r.started.After(q.Since):
		case r.status == "running":
			out.Open = true
		case failed || slices.Contains(v.Succeeded, r.status):
			if out.Newest.IsZero() {
				out.Newest, out.NewestFailed, out.NewestError = r.started, failed, r.err
			}
			if only = only && failed; only && out.Failures < q.Most {
				out.Failures++
			}
		}
	}
	return map[string]sql.Streak{q.Source: out}, nil
}

// take pops the tick and opens a run, as a crawler does; false where no tick waits.
func (b *restBench) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list["a"]) == 0 {
		return false
	}
	delete(b.list, "a")
	b.runs = append(b.runs, &fakeRun{started: time.Now().Round(0), status: "running"})
	return true
}

// close ends the open runs.
func (b *restBench) close(status, err string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.runs {
		if r.status == "running" {
			r.status, r.err = status, err
		}
	}
}

// seen returns the row as the fleet has it.
func (b *restBench) seen() (r sql.Source) {
	b.run(func() { r = b.sources["a"].row })
	return r
}

func (b *restBench) snapshot() (s *worker.Snapshot) {
	b.run(func() { s = b.sources["a"].worker.Snapshot() })
	return s
}

func restBubble(t *testing.T, failures int, test func(b *restBench)) {
	t.Helper()
	fleetBubble(t, func(plain *bench) {
		b := &restBench{bench: plain}
		b.track("a")
		b.run(func() {
			a := b.conf.Adapters["*"]
			a.MaxFailures = failures
			a.Backoff.Jitter = 0
			b.conf.Adapters["*"] = a
			b.streaks = b
		})
		test(b)
	})
}

// round lets the next tick come within a time, and its run end in this way.
func (b *restBench) round(within time.Duration, status, err string) {
	b.t.Helper()
	for end := time.Now().Add(within); !b.take(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			b.t.Fatalf("no tick within %s", within)
		}
		synctest.Wait()
	}
	time.Sleep(10 * time.Second)
	b.close(status, err)
	time.Sleep(35 * time.Second) // it is seen at the latest
	synctest.Wait()
}

func TestASourceRestsAndIsProbed(t *testing.T) {
	t.Parallel()
	restBubble(t, 3, func(b *restBench) {
		b.poll(row("a", 60))
		for range 2 {
			b.round(time.Minute, "failed", "HTTP 503")
		}
		b.round(time.Minute, "interrupted", "by somebody (restarted: exit 0)") // does not count
		if s := b.seen(); !s.PausedUntil.IsZero() {
			t.Fatalf("paused after two: %+v", s)
		}
		b.round(time.Minute, "failed", "HTTP 500")
		for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 360, 360} {
			s := b.seen()
			left := time.Until(s.PausedUntil)
			if limit := want * time.Minute; left > limit || left < limit-46*time.Second || s.Rest.Level != i+1 {
				t.Fatalf("pause %d: %s of %s left, level %d", i+1, left, limit, s.Rest.Level)
			}
			if s.PausedBy != "crawlkeeper" || !strings.Contains(s.PauseReason, "HTTP 50") {
				t.Errorf("paused by %q because %q", s.PausedBy, s.PauseReason)
			}
			b.sent()
			time.Sleep(left - time.Nanosecond)
			b.nothing("while it rests")
			time.Sleep(10 * time.Second)
			b.one("the probe", triggerSchedule)
			if !b.take() {
				t.Fatal("no probe waits")
			}
			time.Sleep(3 * time.Minute)
			b.nothing("while the probe's run is open")
			b.close("failed", "HTTP 502")
			time.Sleep(35 * time.Second)
		}
		time.Sleep(time.Until(b.seen().PausedUntil))
		b.round(time.Minute, "succeeded", "")
		if s := b.seen(); s.Rest.Level != 0 || !s.PausedUntil.IsZero() || s.PauseReason != "" {
			t.Errorf("it succeeded, and yet: %+v", s)
		}
		b.round(time.Minute, "failed", "once") // the count began anew
		b.round(time.Minute, "failed", "twice")
		if s := b.seen(); !s.PausedUntil.IsZero() {
			t.Errorf("paused: %+v", s)
		}
	})
}

// rested brings a source to its first pause.
func (b *restBench) rested() {
	b.poll(row("a", 60))
	b.round(time.Minute, "failed", "oh")
	if b.seen().Rest.Level != 1 {
		b.t.Fatal("it does not rest")
	}
	b.sent()
}

func TestACrashCountsAndTheProbeWaitsForItsVerdict(t *testing.T) {
	t.Parallel()
	restBubble(t, 1, func(b *restBench) {
		b.rested()
		time.Sleep(time.Until(b.seen().PausedUntil) + 5*time.Second)
		b.one("the probe", triggerSchedule)
		b.take()
		b.crash("a") // and is back after 5 s, long before the mark of its run is seen
		time.Sleep(30 * time.Second)
		b.nothing("its run is not marked yet")
		b.close("interrupted", interruption(b.interruptedText, worker.Crashed)+" exit 1)")
		time.Sleep(35 * time.Second)
		if level := b.seen().Rest.Level; level != 2 {
			t.Errorf("level %d", level)
		}
	})
}

func TestAProbeThatNobodyAnswersComesAgain(t *testing.T) {
	t.Parallel()
	restBubble(t, 1, func(b *restBench) {
		b.rested()
		time.Sleep(time.Until(b.seen().PausedUntil) + 5*time.Second)
		b.one("the probe", triggerSchedule)
		b.bench.take("a") // and no run is opened
		time.Sleep(4 * time.Minute)
		b.nothing("while it may still come")
		time.Sleep(2 * time.Minute)
		b.one("the next probe", triggerSchedule)
	})
}

func TestAnotherManagerGoesOnWithTheRest(t *testing.T) {
	t.Parallel()
	restBubble(t, 3, func(b *restBench) {
		r := row("a", 60)
		r.PausedUntil = time.Now().Add(-time.Minute).Round(0)
		r.OwnPause, r.PauseReason, r.Rest = r.PausedUntil, "3 in a row", sql.Rest{Level: 2, Since: time.Now().Add(-time.Hour).Round(0)}
		b.runs = append(b.runs, &fakeRun{started: time.Now().Add(-30 * time.Second).Round(0), status: "running"}) // the last manager's probe
		b.poll(r)
		time.Sleep(20 * time.Second)
		b.nothing("the run of the last manager's probe is not closed")
		b.close("interrupted", b.interruptedText+" (manager_lost)")
		time.Sleep(35 * time.Second)
		b.one("it said nothing: another probe", triggerStartup)
		b.take()
		time.Sleep(2 * time.Minute)
		b.nothing("one only")
	})
}

func (b *restBench) paused(what string, level int, until time.Time) {
	b.t.Helper()
	synctest.Wait()
	if s := b.seen(); s.Rest.Level != level || !s.PausedUntil.Equal(until) {
		b.t.Errorf("%s: level %d, paused until %v", what, s.Rest.Level, s.PausedUntil)
	}
}

func TestWhatEndsARest(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(b *restBench){
		"resume":  func(b *restBench) { b.do(control.Command{Action: "resume", Sources: []string{"a"}}) },
		"restart": func(b *restBench) { b.do(control.Command{Action: "restart", Sources: []string{"a"}}) },
		"somebody else clears paused_until": func(b *restBench) {
			r := b.seen()
			r.PausedUntil, r.PauseReason = time.Time{}, "" // as it is read
			b.written()
			b.poll(r)
			b.paused("somebody else's", 0, time.Time{})
		},
		"it is switched off": func(b *restBench) {
			b.run(func() {
				conf := *b.conf
				a := conf.Adapters["*"]
				a.MaxFailures = 0
				conf.Adapters = map[string]configs.Adapter{"*": a}
				b.reload(&conf)
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			restBubble(t, 1, func(b *restBench) {
				var told []string
				b.run(func() {
					rules := []configs.Alert{{When: configs.AlertRest, Pause: time.Hour}}
					b.alerts = newAlerts(rules, func(_ configs.Alert, source string, a hook.Alert) bool {
						told = append(told, source+" "+a.State)
						return true
					})
				})
				b.rested()
				end(b)
				b.paused(what, 0, time.Time{})
				b.run(func() {
					if !slices.Equal(told, []string{"a begins", "a over"}) {
						t.Errorf("alerts: %q", told)
					}
				})
				time.Sleep(time.Minute)
				if got := b.sent(); len(got) == 0 {
					t.Error("no ticks")
				}
				time.Sleep(5 * time.Minute)
				b.paused("the old failures count no more", 0, time.Time{})
			})
		})
	}
	t.Run("a pause by hand", func(t *testing.T) {
		t.Parallel()
		restBubble(t, 1, func(b *restBench) {
			b.rested()
			b.do(control.Command{Action: "pause", Sources: []string{"a"}, Reason: "holidays"})
			b.paused("by hand", 0, sql.FarFuture)
		})
	})
	t.Run("a run by hand that succeeds", func(t *testing.T) {
		t.Parallel()
		restBubble(t, 1, func(b *restBench) {
			b.rested()
			b.do(control.Command{Action: "tick", Sources: []string{"a"}})
			b.round(time.Second, "succeeded", "")
			b.paused("it is well", 0, time.Time{})
		})
	})
	t.Run("not a run by hand that fails", func(t *testing.T) {
		t.Parallel()
		restBubble(t, 1, func(b *restBench) {
			b.rested()
			until := b.seen().PausedUntil
			b.do(control.Command{Action: "tick", Sources: []string{"a"}})
			b.round(time.Second, "failed", "")
			b.paused("it says nothing new", 1, until)
		})
	})
}

// written tells the fleet that all its changes are in the database.
func (b *restBench) written() {
	b.run(func() {
		for _, c := range b.changes {
			c.Done()
		}
	})
	synctest.Wait()
	time.Sleep(time.Nanosecond)
}

// Whatever happens: no regular tick while it is paused, one probe at a time while it rests, and only a run that succeeded or
// a person ends a rest.
func TestAnyOrderOfFailuresAndPauses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(r, "max_failures")
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 5, 30).Draw(r, "steps")
		restBubble(t, most, func(b *restBench) {
			b.run(func() { // short pauses: each fake second is a turn of the fleet
				a := b.conf.Adapters["*"]
				a.PauseFor = configs.PauseFor{Min: time.Minute, Max: 4 * time.Minute}
				b.conf.Adapters["*"] = a
			})
			b.anyOrder(most, steps)
			if b.t.Failed() {
				b.t.Fatalf("max_failures %d, steps %v", most, steps)
			}
		})
	})
}

func (b *restBench) anyOrder(most int, steps []int) {
	var probe time.Time // of the last probe
	var probeOf sql.Rest
	starts := 0
	b.onPush = func(p push) { // in the fleet's goroutine
		if p.rule == ruleNow {
			return
		}
		s, now := b.sources["a"], time.Now()
		if s.row.PausedUntil.After(now) {
			b.t.Errorf("a tick while it is paused until %v", s.row.PausedUntil)
		}
		if !s.rests() || len(b.list["a"]) > 0 {
			return
		}
		for _, r := range b.runs {
			if r.status == "running" && r.started.After(s.row.Rest.Since) {
				b.t.Error("a probe while a run is open")
			}
		}
		if s.row.Rest == probeOf && s.starts == starts && now.Sub(probe) < b.pauseOf(s, probeOf.Level) {
			b.t.Errorf("a second probe after %s", now.Sub(probe))
		}
		probe, probeOf, starts = now, s.row.Rest, s.starts
	}
	b.poll(row("a", 60))
	for _, step := range steps {
		b.step(step)
		time.Sleep(45 * time.Second) // all is seen
		synctest.Wait()
		b.consistent(most)
	}
}

func (b *restBench) step(step int) {
	all := []string{"a"}
	switch step {
	case 0, 1, 2, 3:
		b.take()
		time.Sleep(10 * time.Second)
		switch step {
		case 0:
			b.close("succeeded", "")
		case 1:
			b.close("failed", "oh")
		case 2:
			if s := b.snapshot(); s.Pid != 0 {
				b.crash("a")
			}
			b.close("interrupted", interruption(b.interruptedText, worker.Signalled)+" SIGSEGV)")
		case 3:
			b.close("interrupted", interruption(b.interruptedText, worker.Restarted)+" exit 0)")
		}
	case 4:
		b.do(control.Command{Action: "pause", Sources: all, Until: time.Now().Add(3 * time.Minute)})
	case 5:
		b.do(control.Command{Action: "resume", Sources: all})
	case 6:
		b.do(control.Command{Action: "restart", Sources: all})
	case 7:
		b.written()
		r := b.seen()
		r.PausedUntil, r.PauseReason = time.Time{}, ""
		b.poll(r)
	case 8:
		if until := b.seen().PausedUntil; until.After(time.Now()) {
			time.Sleep(time.Until(until) - 30*time.Second)
		}
	default:
		time.Sleep(2 * time.Minute)
	}
}

// consistent holds the row against the runs.
func (b *restBench) consistent(most int) {
	b.t.Helper()
	s := b.seen()
	got, _ := b.Streaks(b.t.Context(), []sql.StreakQuery{{Source: "a", Since: s.Rest.Since, Most: 99}}, b.verdicts())
	streak := got["a"]
	switch paused := s.PausedUntil.After(time.Now()); {
	case s.Rest.Level == 0 && !paused && streak.Failures >= most:
		b.t.Errorf("%d failures in a row, and it does not rest", streak.Failures)
	case s.Rest.Level > 0 && !streak.Newest.IsZero() && !streak.NewestFailed:
		b.t.Errorf("it rests although a run succeeded: %+v", s.Rest)
	case s.Rest.Level > 0 && !s.OwnsPause():
		b.t.Errorf("it rests, but its pause is not ours")
	}
}

// Ticks that come more often than runs are looked at must not put the look off for ever.
func TestAQuickSourceRestsToo(t *testing.T) {
	t.Parallel()
	restBubble(t, 3, func(b *restBench) {
		b.poll(row("a", 1))
		for range 3 {
			b.round(time.Second, "failed", "oh")
		}
		if level := b.seen().Rest.Level; level != 1 {
			t.Errorf("level %d", level)
		}
	})
}

// The whole way through a real database: runs that fail, the pause in the tables, another manager, the probe, the end.
func TestRestThroughTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(standin(t, "*"), "pass_urls", "max_failures: 2, pause_for: {min: 3s, max: 1h}, pass_urls", 1))
	w.pg.Exec(t, `insert into sources(code,collector,adapter,enabled,interval_seconds) values ('a','news','builtin',true,1)`)
	m := w.start()
	w.reports(1)
	// The stand-in takes its ticks and opens no runs: these are as its own.
	for range 2 {
		id := w.run("a", "schedule", time.Now())
		w.pg.Exec(t, `update crawl_runs set status='failed', error='HTTP 503' where id=$1`, id)
	}
	level := func() int {
		return testenv.Value[int](t, w.pg, `select coalesce(max(rest_level),0) from crawl_source_options where code='a'`)
	}
	eventually(t, "it rests", func() bool { return level() == 1 })
	reason := testenv.Value[string](t, w.pg, `select pause_reason from crawl_source_options where code='a'`)
	if reason != "2 runs in a row failed; the last: HTTP 503" {
		t.Errorf("reason %q", reason)
	}
	m.end()
	w.start()
	w.reports(1)
	eventually(t, "the next manager probes, and a run fails", func() bool {
		if level() == 1 && w.rdb.HGet(t.Context(), "crawler:last_due", "a").Val() != "" {
			id := w.run("a", "schedule", time.Now())
			w.pg.Exec(t, `update crawl_runs set status='error', error='HTTP 500' where id=$1`, id)
		}
		return level() == 2
	})
	id := w.run("a", "schedule", time.Now())
	w.pg.Exec(t, `update crawl_runs set status='success' where id=$1`, id)
	eventually(t, "a run succeeded", func() bool {
		return level() == 0 && testenv.Value[bool](t, w.pg, `select paused_until is null from sources where code='a'`)
	})
}

func (b *restBench) problem() (text string) {
	b.run(func() {
		var r status.Record
		b.record(b.sources["a"], &r, b.clock.now())
		text = r.Problem
	})
	return text
}

func TestAProbeWhoseRunStaysOpenIsAProblem(t *testing.T) {
	t.Parallel()
	restBubble(t, 1, func(b *restBench) {
		b.rested()
		time.Sleep(time.Until(b.seen().PausedUntil) + 5*time.Second)
		b.one("the probe", triggerSchedule)
		if got := b.problem(); !strings.HasPrefix(got, "resting, with one tick as a probe: ") {
			t.Errorf("problem %q", got)
		}
		b.take()
		time.Sleep(time.Minute)
		if got := b.problem(); !strings.HasPrefix(got, "resting until the open run of its probe ends: ") {
			t.Errorf("problem %q", got)
		}
	})
}

func TestADueTimeFarAheadIsAProblem(t *testing.T) {
	t.Parallel()
	restBubble(t, 0, func(b *restBench) {
		r := row("a", 60)
		r.Schedule = "0 * * * *"
		b.lost = map[string]time.Time{"a": time.Now().Add(365 * 24 * time.Hour)} // by a manager whose clock was wrong
		b.poll(r)
		if got := b.problem(); !strings.Contains(got, "last_due") {
			t.Errorf("problem %q", got)
		}
	})
}
