package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is what a monitor sees in a test, and what it says.
type world struct {
	mu        sync.Mutex
	ticks     map[string]Seen
	beats     map[string]Seen
	runs      map[string]time.Time
	redis     error
	postgres  error
	sick      error           // what checks that look by themselves find
	hang      map[string]bool // sources whose looks do not end before their time
	lastLine  time.Time
	questions int
	looks     map[string]int
	said      []string // verdicts, with the time since the start
	began     time.Time
	m         *Monitor
}

// bubble runs f with a monitor on a fake clock.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{ticks: map[string]Seen{}, beats: map[string]Seen{}, runs: map[string]time.Time{}, hang: map[string]bool{}, looks: map[string]int{}, began: time.Now()}
		w.m = New(Options{Keys: w.keys, Runs: w.open, Looked: func(Kind, string) {}})
		w.m.look = w.look
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = w.m.Run(ctx); close(done) }()
		f(w)
		cancel()
		<-done
	})
}

func (w *world) keys(_ context.Context, _, _ []string) (map[string]Seen, map[string]Seen, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.questions++
	return maps.Clone(w.ticks), maps.Clone(w.beats), w.redis
}

func (w *world) open(context.Context, []string) (map[string]time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.questions++
	return maps.Clone(w.runs), w.postgres
}

func (w *world) look(ctx context.Context, on *watch, _ int, _ Check) error {
	w.mu.Lock()
	w.looks[on.Source]++
	hang, err := w.hang[on.Source], w.sick
	w.mu.Unlock()
	if hang {
		<-ctx.Done()
		return errors.New("no answer in time")
	}
	return err
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// target is a process of a source that was started now.
func (w *world) target(source string, starting bool, checks ...Check) Target {
	return Target{
		Source: source, ProcessID: "p-" + source, Started: time.Now(), Starting: starting, Checks: checks,
		Judge: func(v Verdict) {
			text := []string{"well", "unhealthy", "stalled"}[v.State]
			if v.End {
				text += "!"
			}
			if v.Why != "" {
				text += " " + v.Why
			}
			w.set(func() { w.said = append(w.said, fmt.Sprintf("%s %s", time.Since(w.began), text)) })
		},
		LastLine: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.lastLine },
	}
}

// at sleeps until a time since the start.
func (w *world) at(d time.Duration) {
	time.Sleep(time.Until(w.began.Add(d)))
	synctest.Wait()
}

func (w *world) heard() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func (w *world) lookedAt(source string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks[source]
}

func (w *world) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.said, want) {
		t.Errorf("it said\n  %s\nwant\n  %s", strings.Join(w.said, "\n  "), strings.Join(want, "\n  "))
	}
}

// regular is a check that looks every ten seconds from the start on, so that times can be told.
func regular(k Kind, more ...func(*Check)) Check {
	c := Check{Kind: k, Every: 10 * time.Second, Timeout: time.Second, Unhealthy: 3, Healthy: 1}
	for _, f := range more {
		f(&c)
	}
	return c
}

func restart(c *Check)                     { c.Restart = true }
func lasting(d time.Duration) func(*Check) { return func(c *Check) { c.For = d } }
func grace(d time.Duration) func(*Check)   { return func(c *Check) { c.After = d } }

func TestACrawlerIsWellOnceItAnswers(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.sick = errors.New("refused")
		w.m.Watch(w.target("a", true, regular(HTTP, grace(time.Minute))))
		w.at(50 * time.Second)
		w.want(t) // it is starting
		w.set(func() { w.sick = nil })
		w.at(61 * time.Second)
		if len(w.heard()) != 1 || !strings.HasSuffix(w.heard()[0], " well") {
			t.Errorf("it said %q", w.heard())
		}
		if n := w.lookedAt("a"); n < 6 || n > 16 {
			t.Errorf("%d looks in the first minute: soon at first, then every 10 s", n)
		}
	})
}

func TestOneThatNeverAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more []func(*Check)
		want string
	}{
		"is reported":  {nil, "unhealthy http: refused"},
		"is restarted": {[]func(*Check){restart}, "unhealthy! http: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				w.sick = errors.New("refused")
				w.m.Watch(w.target("a", true, regular(HTTP, append(c.more, grace(time.Minute))...)))
				w.at(79 * time.Second)
				w.want(t) // fewer than three failures after the grace
				w.at(100 * time.Second)
				if len(w.heard()) != 1 || !strings.HasSuffix(w.heard()[0], c.want) {
					t.Errorf("it said %q", w.heard())
				}
				w.at(time.Hour)
				if len(w.heard()) != 1 {
					t.Errorf("and then %q", w.heard()[1:])
				}
			})
		})
	}
}

func TestBadAndGoodAgain(t *testing.T) {
	t.Parallel()
	for kind, c := range map[Kind]struct {
		bad, good func(w *world)
		want      string
	}{
		HTTP:      {func(w *world) { w.sick = errors.New("status 503") }, func(w *world) { w.sick = nil }, "unhealthy http: status 503"},
		TCP:       {func(w *world) { w.sick = errors.New("refused") }, func(w *world) { w.sick = nil }, "unhealthy tcp: refused"},
		Command:   {func(w *world) { w.sick = errors.New("exit 1") }, func(w *world) { w.sick = nil }, "unhealthy command: exit 1"},
		Heartbeat: {func(w *world) { delete(w.beats, "a") }, func(w *world) { w.beats["a"] = Seen{Text: "2"} }, "unhealthy heartbeat: it is gone"},
		TickTaken: {func(w *world) { w.ticks["a"] = Seen{Text: "tick"} }, func(w *world) { delete(w.ticks, "a") }, "stalled tick_taken: a tick waits for "},
		Run:       {func(w *world) { w.runs["a"] = time.Unix(1, 0) }, func(w *world) { w.runs["a"] = time.Unix(2, 0) }, "stalled run: a run is open for "},
		Output: {func(w *world) { w.runs["a"] = time.Unix(1, 0) }, func(w *world) { w.lastLine = time.Now() },
			"stalled output: no line while a run is open for "},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				w.beats["a"] = Seen{Text: "1"}
				w.m.Watch(w.target("a", kind.Gates(), regular(kind, lasting(10*time.Minute))))
				w.at(5 * time.Minute)
				w.set(func() { c.bad(w) })
				w.at(20 * time.Minute)
				w.set(func() { c.good(w) })
				w.at(21 * time.Minute)
				heard := w.heard()
				said := make([]string, len(heard))
				for i, s := range heard {
					_, said[i], _ = strings.Cut(s, " ")
				}
				if len(said) != 3 || said[0] != "well" || !strings.HasPrefix(said[1], c.want) || said[2] != "well" {
					t.Errorf("it said %q", w.heard())
				}
			})
		})
	}
}

// What may last ten minutes is found after the first look beyond that and two more.
func TestTheBoundaryOfFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lasts    time.Duration
		verdicts int
	}{{10*time.Minute + 20*time.Second, 1}, {10*time.Minute + 31*time.Second, 2}} {
		bubble(t, func(w *world) {
			check := regular(TickTaken, lasting(10*time.Minute), restart)
			w.m.Watch(w.target("a", false, check))
			w.at(time.Minute)
			w.set(func() { w.ticks["a"] = Seen{Text: "tick"} })
			w.m.Pushed("a", time.Now())
			w.at(time.Minute + c.lasts)
			w.set(func() { delete(w.ticks, "a") })
			w.at(time.Hour)
			for _, s := range w.heard()[1:] { // the third look, of one each 10 s
				at, rest, _ := strings.Cut(s, " ")
				d, err := time.ParseDuration(at)
				if err != nil || d <= 11*time.Minute+20*time.Second || d > 11*time.Minute+30*time.Second || !strings.HasPrefix(rest, "stalled! tick_taken: a tick waits for 10m") {
					t.Errorf("it said %q", s)
				}
			}
			if len(w.heard()) != c.verdicts {
				t.Errorf("it said %q", w.heard())
			}
		})
	}
}

// A crawler that takes each tick after a while, prints, beats and answers is never found unwell, however unlucky the looks.
func TestAFineCrawlerForAnHour(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		short := func(k Kind) Check {
			return Check{Kind: k, Every: time.Second, Timeout: time.Second, For: 20 * time.Second, Unhealthy: 1, Healthy: 1, Restart: true}
		}
		w.beats["a"] = Seen{Text: "0"}
		w.m.Watch(w.target("a", true, short(HTTP), short(TCP), short(Command), short(Heartbeat), short(TickTaken), short(Output), short(Run)))
		for i := range 720 { // a tick each 5 s, of one text, which is taken after 4.9 s: it seems to wait always
			w.set(func() { w.ticks["a"] = Seen{Text: "bare"}; w.beats["a"] = Seen{Text: fmt.Sprint(i)} })
			w.m.Pushed("a", time.Now())
			time.Sleep(4900 * time.Millisecond)
			w.set(func() { delete(w.ticks, "a"); w.runs["a"] = time.Unix(int64(i), 0); w.lastLine = time.Now() })
			time.Sleep(100 * time.Millisecond)
		}
		if len(w.heard()) != 1 || !strings.HasSuffix(w.heard()[0], " well") {
			t.Errorf("it said %q", w.heard())
		}
	})
}

func TestATickThatIsSeenIsKnownByItsText(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) { // nobody told us of these ticks
		w.m.Watch(w.target("a", false, regular(TickTaken, lasting(30*time.Second), restart)))
		for i := range 100 {
			w.set(func() { w.ticks["a"] = Seen{Text: fmt.Sprint("tick ", i)} })
			time.Sleep(25 * time.Second)
		}
		w.want(t, "0s well")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(w.heard()) != 2 {
			t.Errorf("it said %q", w.heard())
		}
	})
}

// A tick that is pushed while one asks for the last one is not taken for it.
func TestATickPushedJustBefore(t *testing.T) {
	t.Parallel()
	w := watch{}
	begin := time.Now()
	w.sawTick("old", begin)
	w.tick, w.tickSince = "", begin.Add(time.Second) // pushed
	w.sawTick("old", begin.Add(time.Millisecond))    // asked before
	w.sawTick("", begin.Add(2*time.Millisecond))
	if w.tickSince != begin.Add(time.Second) || w.tick != "" {
		t.Errorf("it waits since %v: %q", w.tickSince, w.tick)
	}
	w.sawTick("new", begin.Add(2*time.Second))
	if w.tickSince != begin.Add(time.Second) || w.tick != "new" {
		t.Errorf("it waits since %v: %q", w.tickSince, w.tick)
	}
}

func TestAServerThatIsAwayIsNoFault(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.beats["a"] = Seen{Text: "1"}
		all := []Check{}
		for _, k := range []Kind{Heartbeat, TickTaken, Output, Run} {
			all = append(all, regular(k, lasting(10*time.Minute), restart))
		}
		w.m.Watch(w.target("a", true, all...))
		w.at(time.Minute)
		w.set(func() { w.ticks["a"], w.runs["a"] = Seen{Text: "tick"}, time.Unix(1, 0) })
		w.at(2 * time.Minute) // both are seen
		w.set(func() {
			w.redis, w.postgres = errors.New("away"), errors.New("away")
			delete(w.beats, "a") // it went with its server
		})
		w.at(time.Hour)
		w.set(func() { w.redis, w.postgres = nil, nil })
		w.at(time.Hour + 9*time.Minute)
		if len(w.heard()) != 1 {
			t.Errorf("it said %q", w.heard())
		}
		w.at(time.Hour + 12*time.Minute) // but what is not mended within `for` is
		if len(w.heard()) != 2 || !strings.Contains(w.heard()[1], "!") {
			t.Errorf("it said %q", w.heard())
		}
	})
}

func TestAServerThatIsAwayMakesNobodyWell(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.m.Watch(w.target("a", true, regular(Heartbeat, lasting(time.Minute))))
		w.at(time.Minute)
		w.set(func() { w.redis = errors.New("away") })
		w.at(time.Hour)
		if said := w.heard(); len(said) != 1 || !strings.HasSuffix(said[0], "unhealthy heartbeat: it is gone") {
			t.Errorf("it said %q", said)
		}
	})
}

func TestALookThatCannotBeMadeTellsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.m.Watch(w.target("a", true, regular(Command, restart)))
		w.at(time.Minute)
		w.set(func() { w.sick = fmt.Errorf("busy: %w", ErrUnknown) })
		w.at(time.Hour)
		if said := w.heard(); len(said) != 1 || !strings.HasSuffix(said[0], " well") || w.lookedAt("a") < 350 {
			t.Errorf("it said %q after %d looks", said, w.lookedAt("a"))
		}
	})
}

// A server that is slow is asked one question at a time, and has its rest between two.
func TestASlowServerIsSpared(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		var asking, most, questions int
		w.m.o.Keys = func(context.Context, []string, []string) (map[string]Seen, map[string]Seen, error) {
			w.set(func() { questions++; asking++; most = max(most, asking) })
			time.Sleep(time.Second)
			w.set(func() { asking-- })
			return nil, nil, nil
		}
		for i := range 100 {
			w.m.Watch(w.target(fmt.Sprint(i), false, regular(TickTaken, lasting(time.Minute))))
		}
		w.at(10 * time.Minute)
		w.set(func() {
			if most != 1 || questions < 55 || questions > 60 {
				t.Errorf("%d questions, %d at once", questions, most)
			}
		})
	})
}

func TestOneThatHangsDelaysNobody(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		check := regular(Command, restart)
		check.Timeout = time.Hour
		for i := range 50 {
			source := fmt.Sprint("hangs", i)
			w.hang[source] = true
			w.m.Watch(w.target(source, true, check))
		}
		w.m.Watch(w.target("b", true, check))
		w.at(30 * time.Minute)
		if n := w.lookedAt("b"); n < 180 || n > 190 {
			t.Errorf("%d looks at b in half an hour", n)
		}
		if n := w.lookedAt("hangs7"); n != 1 {
			t.Errorf("%d looks at one that still hangs", n)
		}
	})
}

func TestLooksAreSpreadAndFactsAreAskedTogether(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		for i := range 1000 {
			w.m.Watch(w.target(fmt.Sprint(i), false, regular(TickTaken, lasting(time.Minute))))
		}
		w.at(10 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.questions > 600 || w.questions < 240 { // of 60,000 looks; in half of the seconds at least
			t.Errorf("%d questions in ten minutes", w.questions)
		}
	})
}

func TestChecksAreReplaced(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.sick = errors.New("refused")
		bad, other := regular(HTTP, grace(0)), regular(TCP)
		w.m.Watch(w.target("a", true, bad))
		w.at(time.Minute)
		if len(w.heard()) != 1 || !strings.Contains(w.heard()[0], "unhealthy") {
			t.Fatalf("it said %q", w.heard())
		}
		again := w.target("a", false, bad, other)
		w.m.Watch(again) // what the first one knows is kept; the new one does not make it starting again
		w.at(61 * time.Second)
		if len(w.heard()) != 2 || !strings.HasSuffix(w.heard()[1], "unhealthy http: refused") {
			t.Errorf("it said %q", w.heard())
		}
		w.m.Watch(w.target("a", false))
		w.at(62 * time.Second)
		if len(w.heard()) != 3 || !strings.HasSuffix(w.heard()[2], " well") {
			t.Errorf("without checks it said %q", w.heard())
		}
		looks := w.lookedAt("a")
		w.at(time.Hour)
		if w.lookedAt("a") != looks || len(w.m.watches) != 0 || len(w.m.due) != 0 {
			t.Error("it is still watched")
		}
	})
}

func TestWhatIsForgottenIsNotLookedAt(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.hang["a"] = true
		check := regular(HTTP)
		check.Timeout = time.Hour
		w.m.Watch(w.target("a", true, check))
		w.at(time.Second)
		w.m.Forget("a", "another process")
		w.at(2 * time.Second)
		if len(w.m.watches) != 1 {
			t.Error("another process was forgotten")
		}
		w.m.Forget("a", "p-a") // the look that hangs ends with it
		w.at(2 * time.Hour)
		if w.lookedAt("a") != 1 || len(w.m.watches) != 0 {
			t.Errorf("%d looks", w.lookedAt("a"))
		}
		w.want(t)
	})
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	bad := func(k Kind, restart bool) *look {
		return &look{Check: Check{Kind: k, Restart: restart}, tally: tally{is: unwell}, why: "x"}
	}
	fine := &look{Check: Check{Kind: HTTP, Restart: true}, tally: tally{is: well}}
	fresh := &look{Check: Check{Kind: HTTP}}
	for name, c := range map[string]struct {
		looks   []*look
		passed  bool
		want    Verdict
		decided bool
	}{
		"none":                     {nil, false, Verdict{}, true},
		"well":                     {[]*look{fine}, false, Verdict{}, true},
		"starting":                 {[]*look{fine, fresh}, false, Verdict{}, false},
		"well before":              {[]*look{fine, fresh}, true, Verdict{}, true},
		"ends while starting":      {[]*look{fresh, bad(TCP, true)}, false, Verdict{Unhealthy, "tcp: x", true}, true},
		"waits to be reported":     {[]*look{fresh, bad(TCP, false)}, false, Verdict{Unhealthy, "tcp: x", false}, false},
		"both":                     {[]*look{bad(Run, false), bad(TCP, false)}, false, Verdict{Unhealthy, "run: x; tcp: x", false}, true},
		"stalled":                  {[]*look{fine, bad(Run, false)}, false, Verdict{Stalled, "run: x", false}, true},
		"the one that ends it":     {[]*look{bad(TCP, false), bad(Run, true)}, false, Verdict{Stalled, "run: x", true}, true},
		"unhealthy ends it rather": {[]*look{bad(Run, true), bad(TCP, true)}, false, Verdict{Unhealthy, "tcp: x", true}, true},
	} {
		w := watch{looks: c.looks, passed: c.passed}
		if got, decided := w.verdict(); got != c.want || decided != c.decided {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, decided, c.want, c.decided)
		}
	}
}
