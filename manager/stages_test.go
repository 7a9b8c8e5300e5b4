package manager

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/control"
)

// ended ends the fleet and returns how long that took. The clock of the test begins anew.
func (s *stage) ended() time.Duration {
	s.mu.Lock()
	s.began = time.Now()
	clear(s.starts)
	s.mu.Unlock()
	s.end()
	return time.Since(s.began)
}

func (s *stage) stopTimeout(adapter string, d time.Duration) {
	a := s.conf.Adapters[adapter]
	a.StopTimeout = d
	s.conf.Adapters[adapter] = a
}

const deaf = time.Hour

func TestAShutdownStopsInTheReverseOrder(t *testing.T) {
	t.Parallel()
	type times = map[string]time.Duration
	const s = time.Second
	chain := map[string][]string{"a": {}, "b": {"a"}, "c": {"b"}}
	for name, test := range map[string]struct {
		after map[string][]string
		stops times // stop_timeout of adapters, where it is not 15 s
		ends  times // how long ends take, where that is not a second
		want  times // when each is asked to end
		takes time.Duration
	}{
		"each once those that come after it are gone": {
			after: chain, ends: times{"c-2": 3 * s}, want: times{"x-1": 0, "c-1": 0, "c-2": 0, "b-1": 3 * s, "a-1": 4 * s}, takes: 5 * s,
		},
		"no later than its share of the deadline": {
			after: chain, ends: times{"c-1": deaf}, want: times{"x-1": 0, "c-1": 0, "c-2": 0, "b-1": 5 * s, "a-1": 6 * s}, takes: 15 * s,
		},
		"and all inside the deadline": {
			after: chain, ends: times{"c-1": deaf, "b-1": deaf, "a-1": deaf}, takes: 15 * s,
			want: times{"x-1": 0, "c-1": 0, "c-2": 0, "b-1": 5 * s, "a-1": 10 * s},
		},
		"who needs less leaves more to the others": {
			after: chain, stops: times{"a": 2 * s}, ends: times{"c-1": deaf, "b-1": deaf, "a-1": deaf}, takes: 15 * s,
			want: times{"x-1": 0, "c-1": 0, "c-2": 0, "b-1": 8 * s, "a-1": 13 * s},
		},
		"who needs more than all others has it": {
			after: map[string][]string{"a": {}, "b": {"a"}, "c": {}}, stops: times{"a": 40 * s}, ends: times{"b-1": deaf, "a-1": deaf}, takes: 40 * s,
			want: times{"x-1": 0, "c-1": 0, "c-2": 0, "b-1": 0, "a-1": 15 * s},
		},
		"without an order all at once": {
			after: map[string][]string{"a": {}, "b": {}, "c": {}}, ends: times{"c-1": 7 * s}, takes: 7 * s,
			want: times{"x-1": 0, "c-1": 0, "c-2": 0, "b-1": 0, "a-1": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			staged(t, test.after, func(s *stage) {
				for adapter, d := range test.stops {
					s.stopTimeout(adapter, d)
				}
				s.ends = test.ends
				s.pollOf("a-1", "b-1", "c-1", "c-2", "x-1")
				time.Sleep(time.Second)
				if took := s.ended(); took != test.takes {
					t.Errorf("it took %v, want %v", took, test.takes)
				}
				for code, want := range test.want {
					if got := s.asked[code]; !slices.Equal(got, []time.Duration{want}) {
						t.Errorf("%s was asked to end at %v, want %v", code, got, want)
					}
				}
			})
		})
	}
}

var pair = map[string][]string{"a": {}, "b": {"a"}}

// While those that come first wait for their end nothing is started: not by a backoff, an end, a command or a poll.
func TestAShutdownStartsNothing(t *testing.T) {
	t.Parallel()
	staged(t, pair, func(s *stage) {
		s.ends = map[string]time.Duration{"b-1": 7 * time.Second}
		s.pollOf("a-1", "a-2", "a-3", "b-1")
		time.Sleep(time.Second)
		s.crash("a-1") // in backoff when the end comes
		time.AfterFunc(2*time.Second, func() {
			s.crash("a-2")
			s.pollOf("a-1", "a-2", "a-3", "b-1", "x-1")
			reply := s.do(control.Command{Action: "restart", All: true, Rolling: true})
			if reply.OK || reply.Results["a-3"].Error != "the manager is shutting down" {
				t.Errorf("%+v", reply)
			}
			if reply := s.do(control.Command{Action: "reload"}); reply.OK {
				t.Errorf("%+v", reply)
			}
		})
		time.Sleep(time.Second)
		if took := s.ended(); took != 8*time.Second {
			t.Errorf("it took %v", took)
		}
		if len(s.starts) != 0 {
			t.Errorf("%v were started", slices.Collect(maps.Keys(s.starts)))
		}
		if got := s.asked["a-3"]; !slices.Equal(got, []time.Duration{7 * time.Second}) {
			t.Errorf("asked at %v", got)
		}
	})
}

func TestASecondSignalEndsAllStages(t *testing.T) {
	t.Parallel()
	staged(t, pair, func(s *stage) {
		s.ends = map[string]time.Duration{"b-1": deaf, "a-1": deaf}
		s.pollOf("a-1", "b-1")
		synctest.Wait()
		time.AfterFunc(3*time.Second, func() { close(s.kill) })
		if took := s.ended(); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// Who lost the manager's key does not keep crawlers for the sake of an order.
func TestABrokenManagerStopsAllAtOnce(t *testing.T) {
	t.Parallel()
	for _, when := range []time.Duration{0, 3 * time.Second} { // before the end, and in the middle of it
		staged(t, pair, func(s *stage) {
			s.ends = map[string]time.Duration{"b-1": 10 * time.Second}
			s.pollOf("a-1", "b-1")
			synctest.Wait()
			if when == 0 {
				s.run(s.hurryUp)
			} else {
				time.AfterFunc(when, func() { s.inbox.put(s.hurryUp) })
			}
			s.ended()
			if got := s.asked["a-1"]; !slices.Equal(got, []time.Duration{when}) {
				t.Errorf("asked at %v, not at %v", got, when)
			}
		})
	}
}

// A whole manager and real crawlers, which write down when they start and end.
func TestARealManagerKeepsTheOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, file := filepath.Join(dir, "crawler"), filepath.Join(dir, "log")
	const crawler = `trap 'echo "$1-end" >>"$2"; exit 0' TERM
echo "$1-up" >>"$2"
while :; do sleep 100 & wait $!; done
`
	if err := os.WriteFile(script, []byte(crawler), 0o600); err != nil {
		t.Fatal(err)
	}
	adapter := func(name, after string) string {
		return fmt.Sprintf("  %s: {command: [/bin/sh, %q, %q, %q], after: [%s]}\n", name, script, "{code}", file, after)
	}
	w := newWorld(t, adapter("page", "site"), adapter("site", "store"), adapter("store", ""))
	for _, code := range []string{"page", "site", "store"} {
		w.source(code)
		w.pg.Exec(t, `update sources set adapter=$1 where code=$1`, code)
	}
	log := func() string {
		data, _ := os.ReadFile(file)
		return strings.Join(strings.Fields(string(data)), " ")
	}
	r := w.start()
	eventually(t, "all are up", func() bool { return strings.Count(log(), "-up") == 3 })
	for _, code := range []string{"page", "site", "store"} {
		w.phase(code, "running")
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	// Without checks a crawler is up with its fork, so that only the ends are sure to be written in their order.
	if got := log(); !strings.HasSuffix(got, " page-end site-end store-end") {
		t.Errorf("%q", got)
	}
}
