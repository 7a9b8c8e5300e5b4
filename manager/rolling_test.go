package manager

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
	"crawlkeeper/worker"
)

// downs counts, from events, how many sources are down that were up before.
type downs struct {
	mu   sync.Mutex
	down map[string]bool
	most int
}

func (d *downs) see(e status.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch from, to := worker.Phase(e.From).Up(), worker.Phase(e.To).Up(); {
	case from && !to:
		d.down[e.Source] = true
		d.most = max(d.most, len(d.down))
	case to:
		delete(d.down, e.Source)
	}
}

func codesOf(n int) []string {
	var codes []string
	for i := range n {
		codes = append(codes, fmt.Sprintf("x-%02d", i))
	}
	return codes
}

var rolling = control.Command{Action: "restart", All: true, Rolling: true}

func TestARollingRestartKeepsMostOfThemUp(t *testing.T) {
	t.Parallel()
	staged(t, nil, func(s *stage) {
		d := downs{down: map[string]bool{}}
		s.publish = d.see
		s.pollOf(codesOf(50)...)
		time.Sleep(time.Minute)
		c := rolling
		c.MaxDown = 3
		if r := s.do(c); !r.OK || len(r.Results) != 50 {
			t.Errorf("%+v", r)
		}
		if d.most != 3 {
			t.Errorf("%d were down together", d.most)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for code, starts := range s.starts {
			if len(starts) != 2 {
				t.Errorf("%s was started %d times", code, len(starts))
			}
		}
	})
}

func TestARollingRestartKeepsItsPauses(t *testing.T) {
	t.Parallel()
	staged(t, nil, func(s *stage) {
		s.pollOf(codesOf(3)...)
		s.mu.Lock()
		s.began = time.Now()
		clear(s.starts)
		s.mu.Unlock()
		c := rolling
		c.MaxDown, c.Stagger = 2, 20*time.Second
		if r := s.do(c); !r.OK {
			t.Errorf("%+v", r)
		}
		s.started("x-00", time.Second)
		s.started("x-01", 21*time.Second)
		s.started("x-02", 41*time.Second)
	})
}

// A new version that comes up and crashes a moment later must not reach all crawlers.
func TestARollingRestartEndsWhereTheFirstThreeDoNotGetWell(t *testing.T) {
	t.Parallel()
	const crash = "its crawler crashed (exit 3) before it was well"
	for name, test := range map[string]struct {
		bad   func(s *stage)
		first string
	}{
		"they crash after 100 ms":            {func(s *stage) { s.dies = 100 * time.Millisecond }, crash},
		"they crash just before backoff.min": {func(s *stage) { s.dies = 5*time.Second - 1 }, crash},
		"they cannot be started": {func(s *stage) {
			for _, code := range codesOf(50) {
				s.broken[code] = true
			}
		}, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			staged(t, nil, func(s *stage) {
				s.pollOf(codesOf(50)...)
				time.Sleep(time.Minute)
				s.mu.Lock()
				clear(s.starts)
				test.bad(s)
				s.mu.Unlock()
				checkEnded(t, s.do(rolling), test.first)
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(s.starts) != 3 {
					t.Errorf("%d were restarted", len(s.starts))
				}
				s.dies = 0
				clear(s.broken)
			})
		})
	}
}

// checkEnded checks the reply to a rolling restart of 50 that ended after three.
func checkEnded(t *testing.T, r control.Reply, first string) {
	t.Helper()
	if r.OK || len(r.Results) != 50 {
		t.Errorf("%+v", r)
	}
	for i, code := range codesOf(50) {
		want := first
		if i >= 3 {
			want = "not restarted: the first 3 did not get well, the last one as " + first
		}
		if got := r.Results[code]; got.OK || got.Error != want {
			t.Errorf("%s: %+v, want %q", code, got, want)
		}
	}
}

func TestOneThatIsWellKeepsARollingRestartGoing(t *testing.T) {
	t.Parallel()
	staged(t, nil, func(s *stage) {
		s.pollOf(codesOf(10)...)
		time.Sleep(time.Minute)
		s.mu.Lock()
		for _, code := range codesOf(10) {
			s.broken[code] = code != "x-02"
		}
		s.mu.Unlock()
		r := s.do(rolling)
		for _, code := range codesOf(10) {
			if got := r.Results[code]; got.OK != (code == "x-02") || !got.OK && got.Error != "broken" {
				t.Errorf("%s: %+v", code, got)
			}
		}
		s.mu.Lock()
		clear(s.broken)
		s.mu.Unlock()
	})
}

// Whom somebody stops or restarts meanwhile says nothing of the new version; whom a check finds unwell does.
func TestWhatHappensToACrawlerOnTrial(t *testing.T) {
	t.Parallel()
	staged(t, nil, func(s *stage) {
		s.pollOf(codesOf(5)...)
		time.Sleep(time.Minute)
		reply := make(chan control.Reply, 1)
		go func() { reply <- s.do(rolling) }()
		onTrial := func() { // 2 s after the start of the next one
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		onTrial()
		s.do(control.Command{Action: "stop", Sources: []string{"x-00"}})
		onTrial()
		time.Sleep(2500 * time.Millisecond)                                 // it is down when its trial would have been over
		s.do(control.Command{Action: "restart", Sources: []string{"x-01"}}) // which begins anew
		time.Sleep(5 * time.Second)
		onTrial()
		s.judge("x-02", worker.Verdict{Phase: worker.Unhealthy, Why: "it says 500"})
		time.Sleep(3 * time.Second)
		onTrial()
		s.judge("x-03", worker.Verdict{End: worker.Stuck, Why: "no line"})
		r := <-reply
		for code, want := range map[string]string{
			"x-00": "superseded", "x-01": "", "x-02": "its crawler is unhealthy: it says 500",
			"x-03": "its crawler was stuck and had to be ended (exit 0) before it was well: no line", "x-04": "",
		} {
			if got := r.Results[code]; got.Error != want || got.OK != (want == "") {
				t.Errorf("%s: %+v, want %q", code, got, want)
			}
		}
	})
}

// With checks a crawler is well once they say so, however long it has run.
func TestARollingRestartWaitsForChecks(t *testing.T) {
	t.Parallel()
	staged(t, nil, func(s *stage) {
		s.checked("*")
		s.pollOf(codesOf(2)...)
		well := worker.Verdict{Phase: worker.Running}
		s.judge("x-00", well)
		s.judge("x-01", well)
		time.Sleep(time.Minute)
		reply := make(chan control.Reply, 1)
		go func() { reply <- s.do(rolling) }()
		time.Sleep(time.Minute)
		s.started("x-00", 0, time.Minute+time.Second)
		s.started("x-01", 0)
		s.judge("x-00", well)
		time.Sleep(2 * time.Second)
		s.started("x-01", 0, 2*time.Minute+time.Second)
		s.judge("x-01", worker.Verdict{Phase: worker.Unhealthy, Why: "no answer"})
		r := <-reply
		if !r.Results["x-00"].OK || r.Results["x-01"].Error != "its crawler is unhealthy: no answer" {
			t.Errorf("%+v", r)
		}
	})
}

// A rolling restart that the end of the manager cuts off is answered, those on trial included.
func TestTheEndCutsOffATrial(t *testing.T) {
	t.Parallel()
	staged(t, nil, func(s *stage) {
		s.pollOf(codesOf(5)...)
		time.Sleep(time.Minute)
		reply := make(chan control.Reply, 1)
		go func() { reply <- s.do(rolling) }()
		time.Sleep(9 * time.Second)
		s.end()
		r := <-reply
		for i, code := range codesOf(5) {
			if got := r.Results[code]; got.OK != (i == 0) || i > 0 && got.Error != worker.ErrShutdown.Error() {
				t.Errorf("%s: %+v", code, got)
			}
		}
	})
}

// versions is an adapter whose crawler is a script that can be replaced.
func versions(t *testing.T, backoff string) (adapter string, write func(script string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crawler")
	write = func(script string) {
		if err := os.WriteFile(path+".new", []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("exec %q -code \"$1\"\n", testenv.StandIn(t)))
	adapter = standin(t, "*")
	argv, _ := json.Marshal([]string{"/bin/sh", path, "{code}"})
	from := strings.Index(adapter, "command: ") + len("command: ")
	to := strings.Index(adapter, ", pass_urls")
	adapter = adapter[:from] + string(argv) + adapter[to:]
	return strings.Replace(adapter, "min: 200ms, max: 1s", backoff, 1), write
}

func TestARealRollingRestartOfFifty(t *testing.T) {
	t.Parallel()
	adapter, _ := versions(t, "min: 100ms, max: 1s")
	w := newWorld(t, adapter)
	w.source(codesOf(50)...)
	w.start()
	w.reports(50)
	for _, code := range codesOf(50) {
		w.phase(code, "running")
	}
	events := w.rdb.Subscribe(t.Context(), "crawler:events")
	defer events.Close()
	if _, err := events.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := rolling
	c.MaxDown = 5
	w.must(c)
	w.reports(50)
	d := downs{down: map[string]bool{}}
	for up := 0; up < 50; {
		m, err := events.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var e status.Event
		if err := json.Unmarshal([]byte(m.Payload), &e); err != nil {
			t.Fatal(err)
		}
		d.see(e)
		if e.To == "running" {
			up++
		}
	}
	if d.most > 5 {
		t.Errorf("%d were down together", d.most)
	}
}

func TestARealRollingRestartToABadVersion(t *testing.T) {
	t.Parallel()
	adapter, write := versions(t, "min: 1h, max: 1h")
	w := newWorld(t, adapter)
	w.source(codesOf(50)...)
	w.start()
	before := w.reports(50)
	for _, code := range codesOf(50) {
		w.phase(code, "running")
	}
	write("sleep 0.1; exit 3\n")
	checkEnded(t, w.command(rolling), "its crawler crashed (exit 3) before it was well")
	w.none()
	for _, s := range before {
		if old := s.code > "x-02"; alive(s.pid) != old {
			t.Errorf("the first crawler of %s is alive: %v", s.code, !old)
		}
	}
}
