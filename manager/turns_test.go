package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// stage is a bench whose sources are of several adapters, and which sees the starts.
type stage struct {
	*bench
	began  time.Time
	starts map[string][]time.Duration // by code
	slow   map[string]time.Duration   // how long a start takes
	broken map[string]bool            // it fails
	ends   map[string]time.Duration   // how long an end takes, where it is not a second
	asked  map[string][]time.Duration // when it was asked to end
	dies   time.Duration              // processes end after this by themselves; 0 is never
	kill   chan struct{}
	end    func()
}

// staged runs a test with adapters that come after others; "*" comes after none.
func staged(t *testing.T, after map[string][]string, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for name, others := range after {
			a := b.conf.Adapters["*"]
			a.After = others
			b.conf.Adapters[name] = a
		}
		s := &stage{
			bench: b, began: time.Now(), starts: map[string][]time.Duration{}, slow: map[string]time.Duration{}, broken: map[string]bool{},
			ends: map[string]time.Duration{}, asked: map[string][]time.Duration{}, kill: make(chan struct{}),
		}
		start := b.needs.Start
		b.needs.Start = func(ctx context.Context, spec process.Spec) (worker.Process, error) {
			code := spec.Argv[2]
			b.mu.Lock()
			slow, broken := s.slow[code], s.broken[code]
			s.starts[code] = append(s.starts[code], time.Since(s.began))
			b.mu.Unlock()
			if err := pause(ctx, slow); err != nil {
				return nil, err
			}
			if broken {
				return nil, errors.New("broken")
			}
			p, err := start(ctx, spec)
			fake := p.(*fakeProcess)
			fake.onAsk = func(syscall.Signal) { s.askedToEnd(code, fake) }
			b.mu.Lock()
			b.procs[code] = fake
			if s.dies > 0 {
				time.AfterFunc(s.dies, func() { fake.end(process.Exit{Code: 3}) })
			}
			b.mu.Unlock()
			return p, err
		}
		b.needs.Kill = s.kill
		s.end = b.launch(t.Context())
		test(s)
		s.end()
		time.Sleep(time.Minute) // the second marks
	})
}

func (s *stage) askedToEnd(code string, p *fakeProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[code] = append(s.asked[code], time.Since(s.began))
	time.AfterFunc(cmp.Or(s.ends[code], time.Second), func() { p.end(process.Exit{}) })
}

// pollOf has sources whose code begins with the name of their adapter.
func (s *stage) pollOf(codes ...string) {
	var rows []sql.Source
	for _, code := range codes {
		r := row(code, 3600)
		r.Adapter, _, _ = strings.Cut(code, "-")
		rows = append(rows, r)
	}
	s.poll(rows...)
}

// started checks when the crawlers of a source were started.
func (s *stage) started(code string, want ...time.Duration) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.starts[code], want) {
		s.t.Errorf("%s was started at %v, want %v", code, s.starts[code], want)
	}
}

func (s *stage) recordOf(code string) status.Record {
	var r status.Record
	s.run(func() { s.record(s.sources[code], &r, s.clock.now()) })
	return r
}

func TestCrawlersStartAfterThoseOfOtherAdapters(t *testing.T) {
	t.Parallel()
	staged(t, map[string][]string{"db": {}, "a": {"db"}, "b": {"a", "*"}}, func(s *stage) {
		s.slow = map[string]time.Duration{"db-1": 3 * time.Second, "db-2": 7 * time.Second, "a-1": time.Second, "other-1": 9 * time.Second}
		s.pollOf("a-1", "a-2", "b-1", "db-1", "db-2", "other-1") // dependents are read first
		time.Sleep(5 * time.Second)
		if r := s.recordOf("a-1"); r.Phase != "pending" || r.Problem != "waits for the crawlers of adapter db: 1 not up yet" {
			t.Errorf("%+v", r)
		}
		if r := s.recordOf("b-1"); r.Problem != "waits for the crawlers of adapter a: 2 not up yet" {
			t.Errorf("%+v", r)
		}
		time.Sleep(20 * time.Second)
		s.started("db-1", 0)
		s.started("other-1", 0)
		s.started("a-1", 7*time.Second)
		s.started("a-2", 7*time.Second)
		s.started("b-1", 9*time.Second)
		if r := s.recordOf("a-1"); r.Phase != "running" || r.Problem != "" {
			t.Errorf("%+v", r)
		}
		s.run(func() {
			if len(s.turns.open) != 0 || len(s.turns.waiting) != 0 {
				t.Errorf("left: %+v", s.turns)
			}
		})
	})
}

// One source that is broken, stopped or deleted, or no source at all, does not hold up those that come after it.
func TestWhoIsBrokenHoldsUpNobody(t *testing.T) {
	t.Parallel()
	staged(t, map[string][]string{"db": {}, "none": {}, "a": {"db", "none"}}, func(s *stage) {
		s.conf.Manager.Disabled = configs.DisabledStop
		s.slow = map[string]time.Duration{"db-1": 3 * time.Second, "db-4": time.Hour}
		s.broken["db-1"] = true
		rows := []sql.Source{row("a-1", 3600), row("db-1", 3600), row("db-2", 3600), row("db-3", 3600), row("db-4", 3600)}
		rows[0].Adapter = "a"
		for i := range rows[1:] {
			rows[i+1].Adapter = "db"
		}
		rows[2].Wanted, rows[3].Enabled = sqlStopped, false
		s.poll(rows...)
		time.Sleep(5 * time.Second)
		s.started("db-1", 0)
		s.started("db-2")
		s.started("a-1")
		s.poll(rows[:4]...) // db-4 is deleted while it starts
		s.started("a-1", 5*time.Second)
		if r := s.recordOf("db-1"); r.Phase != "backoff" {
			t.Errorf("%+v", r)
		}
	})
}

// checked gives an adapter a check; what it finds is said by judge.
func (s *stage) checked(adapter string) {
	a := s.conf.Adapters[adapter]
	a.Health = []configs.Check{{Type: configs.CheckTCP, Address: "127.0.0.1:1"}}
	s.conf.Adapters[adapter] = a
}

func (s *stage) judge(code string, v worker.Verdict) {
	s.run(func() {
		w := s.sources[code].worker
		v.ProcessID = w.Snapshot().ProcessID
		w.Judge(v)
	})
	synctest.Wait()
}

// Where crawlers have checks those that come after them wait until they are well, or are found not to be.
func TestCrawlersWithChecksAreWaitedForUntilTheyAreWell(t *testing.T) {
	t.Parallel()
	staged(t, map[string][]string{"db": {}, "sick": {}, "a": {"db"}, "b": {"sick"}}, func(s *stage) {
		s.checked("db")
		s.checked("sick")
		s.pollOf("a-1", "b-1", "db-1", "sick-1")
		time.Sleep(time.Minute)
		s.started("db-1", 0)
		s.started("a-1")
		s.judge("db-1", worker.Verdict{Phase: worker.Running})
		s.started("a-1", time.Minute)
		s.judge("sick-1", worker.Verdict{End: worker.Sick, Why: "no answer"})
		time.Sleep(2 * time.Second)
		s.started("b-1", time.Minute+time.Second)
	})
}

// The order is that of first starts: who was up once neither waits when it starts again nor is waited for.
func TestLaterStartsAndEndsHoldUpNobody(t *testing.T) {
	t.Parallel()
	staged(t, map[string][]string{"db": {}, "a": {"db"}}, func(s *stage) {
		s.pollOf("a-1", "db-1")
		s.started("a-1", 0)
		s.mu.Lock()
		s.slow["db-1"] = time.Hour
		s.mu.Unlock()
		time.Sleep(time.Second)
		s.crash("db-1")
		time.Sleep(10 * time.Second) // it is starting again, slowly
		s.crash("a-1")
		time.Sleep(10 * time.Second)
		if r := s.recordOf("a-1"); r.Phase != "running" || r.Restarts != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestACommandEndsTheWaitForOthers(t *testing.T) {
	t.Parallel()
	staged(t, map[string][]string{"db": {}, "a": {"db"}}, func(s *stage) {
		s.slow["db-1"] = time.Minute
		s.pollOf("a-1", "a-2", "db-1")
		time.Sleep(time.Second)
		if r := s.do(control.Command{Action: "stop", Sources: []string{"a-1"}}); !r.OK {
			t.Errorf("%+v", r)
		}
		if r := s.recordOf("a-1"); r.Phase != "stopped" || r.Problem != "" {
			t.Errorf("%+v", r)
		}
		if r := s.do(control.Command{Action: "restart", Sources: []string{"a-2"}}); !r.OK {
			t.Errorf("%+v", r)
		}
		s.started("a-2", time.Second)
		done := make(chan control.Reply, 1)
		go func() { done <- s.do(control.Command{Action: "start", Sources: []string{"a-1"}}) }()
		time.Sleep(10 * time.Second)
		s.started("a-1") // it waits again
		if r := s.recordOf("a-1"); r.Phase != "pending" || r.Problem == "" {
			t.Errorf("%+v", r)
		}
		if r := <-done; !r.OK {
			t.Errorf("%+v", r)
		}
		s.started("a-1", time.Minute)
	})
}

func TestAReloadChangesWhoComesFirst(t *testing.T) {
	t.Parallel()
	staged(t, map[string][]string{"db": {}, "a": {"db"}}, func(s *stage) {
		s.slow["db-1"] = time.Hour
		s.pollOf("a-1", "db-1")
		time.Sleep(time.Second)
		conf := *s.conf
		conf.Adapters = map[string]configs.Adapter{"*": conf.Adapters["*"], "db": conf.Adapters["db"], "a": conf.Adapters["db"]}
		s.load = func() (*configs.Config, error) { return &conf, nil }
		if r := s.do(control.Command{Action: "reload"}); !r.OK {
			t.Errorf("%+v", r)
		}
		s.started("a-1", time.Second)
	})
}

// Who waits for others takes no place in the queue of starts.
func TestWhoWaitsForOthersDoesNotHoldUpThePace(t *testing.T) {
	t.Parallel()
	staged(t, map[string][]string{"db": {}, "a": {"db"}}, func(s *stage) {
		s.needs.Gate = newPacer(1).Wait
		s.slow["db-1"] = time.Minute
		codes := []string{"db-1"}
		for i := range 10 {
			codes = append(codes, fmt.Sprintf("a-%d", i), fmt.Sprintf("x-%d", i))
		}
		s.pollOf(codes...)
		time.Sleep(30 * time.Second)
		up := func(prefix string) (n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for code := range s.starts {
				if strings.HasPrefix(code, prefix) {
					n++
				}
			}
			return n
		}
		if up("x-") != 10 || up("a-") != 0 {
			t.Errorf("%d others and %d that wait were started", up("x-"), up("a-"))
		}
		time.Sleep(time.Minute)
		if up("a-") != 10 {
			t.Errorf("%d in the end", up("a-"))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var all []time.Duration
		for _, starts := range s.starts {
			all = append(all, starts...)
		}
		slices.Sort(all)
		for i := range all[1:] {
			if all[i+1]-all[i] < time.Second-time.Microsecond {
				t.Errorf("starts at %v", all)
				break
			}
		}
	})
}
