package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// event is what happens so often in a day: to a fleet, or to each of its crawlers.
type event struct {
	name    string
	fleet   float64
	crawler float64
	do      func(*soak)
}

var dayEvents = []event{
	{"a crawler is killed", 0, 1, func(s *soak) { s.signal(syscall.SIGKILL) }},
	{"a crawler exits with 0", 0, 0.5, func(s *soak) { s.signal(syscall.SIGUSR1) }},
	{"a crawler exits with 1", 0, 0.5, func(s *soak) { s.signal(syscall.SIGWINCH) }},
	{"a crawler forks without end", 0, 0.1, func(s *soak) { s.signal(syscall.SIGHUP) }},
	{"restart", 0, 2, func(s *soak) { s.command("restart", s.any(), nil) }},
	{"restart of all", 4, 0, func(s *soak) { s.command("restart", "all", nil) }},
	{"rolling restart", 2, 0, func(s *soak) { s.command("restart", "adapter:family", map[string]any{"rolling": true, "max_down": 10}) }},
	{"tick by hand", 0, 1, func(s *soak) { s.command("tick", s.any(), nil) }},
	{"stop, start", 0, 1, func(s *soak) {
		s.turn(&s.stopped, func(code string) { s.command("stop", code, nil) }, func(code string) { s.command("start", code, nil) })
	}},
	{"pause, resume", 0, 1, func(s *soak) {
		s.turn(&s.paused, func(code string) { s.command("pause", code, map[string]any{"reason": "soaked"}) }, func(code string) { s.command("resume", code, nil) })
	}},
	{"disabled, enabled", 0, 0.5, func(s *soak) {
		const statement = `update sources set enabled = $2 where code = $1`
		s.turn(&s.off, func(code string) { s.sql(statement, code, false) }, func(code string) { s.sql(statement, code, true) })
	}},
	{"another payload", 0, 0.5, func(s *soak) { s.repay(s.any()) }},
	{"a source is added, one deleted", 0, 2, (*soak).comeAndGo},
	{"garbage", 0, 5, (*soak).garbage},
	{"reload by SIGHUP", 24, 0, func(s *soak) { s.reload(func() { _ = syscall.Kill(s.m.Pid(), syscall.SIGHUP) }) }},
	{"reload by a command", 24, 0, func(s *soak) { s.reload(func() { s.command("reload", nil, nil) }) }},
	{"metrics", 288, 0, func(s *soak) { s.metrics() }},
	{"output", 100, 0, func(s *soak) { s.get("/output/" + s.any()) }},
	{"output is followed", 100, 0, func(s *soak) { s.readers.follow("http://" + s.address + "/output/" + s.any() + "?follow=1") }},
	{"connections are cut", 4, 0, (*soak).cut},
	{"status by the command line", 12, 0, func(s *soak) { s.crawlkeeper("status", "--config", s.conf, "--json") }},
}

// happen lets a part of the day happen.
func (s *soak) happen(part float64) {
	for _, e := range dayEvents {
		expected := (e.fleet + e.crawler*float64(s.crawlers)) * part
		n := int(expected)
		if s.random.Float64() < expected-float64(n) {
			n++
		}
		for range n {
			e.do(s)
		}
		s.events[e.name] += n
	}
}

func (s *soak) happened() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.events)) {
		fmt.Fprintf(&b, "%6d × %s\n", s.events[name], name)
	}
	return b.String() + s.asked.String()
}

func (s *soak) any() string { return s.codes[s.random.IntN(len(s.codes))] }

// turn does something to one source more, or takes it back of the one that has had it for longest, so that a few always have it.
func (s *soak) turn(have *[]string, do, undo func(code string)) {
	if len(*have) > s.crawlers/20 {
		undo((*have)[0])
		*have = (*have)[1:]
		return
	}
	if code := s.any(); !slices.Contains(*have, code) {
		do(code)
		*have = append(*have, code)
	}
}

// comeAndGo adds a source with a code that there never was, or deletes the oldest of these.
func (s *soak) comeAndGo() {
	if len(s.extra) > s.crawlers/10 {
		s.sql(`delete from sources where code = $1`, s.extra[0])
		s.sql(`delete from crawl_source_options where code = $1`, s.extra[0])
		s.extra = s.extra[1:]
		return
	}
	s.added++
	code := fmt.Sprintf("x%05d", s.added)
	s.add(code, soakAdapters[s.added%len(soakAdapters)])
	s.extra = append(s.extra, code)
}

// repay gives a source another payload.
func (s *soak) repay(code string) {
	s.sql(`insert into crawl_source_options (code, payload) values ($1, jsonb_build_object('page', $2::bigint))
		on conflict (code) do update set payload = excluded.payload`, code, s.random.Int64())
}

// signal sends a signal to the crawler of some source, if it has one that is surely its own.
func (s *soak) signal(sig syscall.Signal) {
	code := s.any()
	pid := s.record(code).Pid
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if pid != 0 && bytes.Contains(environ, []byte("CRAWLKEEPER_SOURCE="+code+"\x00")) && bytes.Contains(environ, []byte("TMPDIR="+s.tmp)) {
		_ = syscall.Kill(pid, sig)
	}
}

// reload changes the configuration, each second time so that crawlers must be started anew.
func (s *soak) reload(tell func()) {
	s.reloads++
	s.writeConfig()
	tell()
}

func (s *soak) garbage() {
	text := []string{`{"action":"explode","source":"all"}`, `{"action":"restart","source":"nobody"}`, "\xff\x00", strings.Repeat("x", 70<<10), `[]`}[s.random.IntN(5)]
	if err := s.rdb.Publish(s.t.Context(), "crawler:control", text).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// cut ends all connections of the manager and its crawlers, as servers do that are restarted.
func (s *soak) cut() {
	s.sql(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
	clients, err := s.rdb.ClientList(s.t.Context()).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(clients) {
		address := strings.Split(strings.Fields(line)[1], "=")[1]
		if !strings.Contains(line, "name=soak") && !strings.Contains(line, "cmd=client") {
			s.rdb.ClientKill(s.t.Context(), address)
		}
	}
	s.asked.doubt()
}

// get reads what the manager shows. A machine that stalls may cost an answer, which the manager cuts off after 10 s.
func (s *soak) get(path string) (text string) {
	s.t.Helper()
	s.eventually("GET "+path, func() bool {
		answer, err := http.Get("http://" + s.address + path) //nolint:noctx // the test has a limit of its own
		if err != nil {
			s.events["an answer of the manager is cut off"]++
			return false
		}
		defer answer.Body.Close()
		whole, err := io.ReadAll(answer.Body)
		text = string(whole)
		return err == nil && answer.StatusCode < http.StatusInternalServerError
	})
	return text
}

// questions are the commands that were sent and not answered yet.
type questions struct {
	mu      sync.Mutex
	sent    int               // guarded by mu, as what follows
	waiting map[string]string // by id
	refused map[string]int    // by the reason
}

// ask listens to answers until the test ends.
func (s *soak) ask() *questions {
	q := &questions{waiting: make(map[string]string), refused: make(map[string]int)}
	client := redis.NewClient(&redis.Options{Addr: s.redis.Addr(), ClientName: "soak"})
	s.t.Cleanup(func() { _ = client.Close() })
	replies(s.t, client, q.heard)
	return q
}

// command sends a command that is to be answered.
func (s *soak) command(action string, source any, more map[string]any) {
	s.t.Helper()
	id := fmt.Sprint("soak-", s.asked.sent+1)
	command := map[string]any{"action": action, "source": source, "by": "soak", "id": id}
	maps.Copy(command, more)
	text, err := json.Marshal(command)
	if err != nil {
		s.t.Fatal(err)
	}
	s.asked.add(id, string(text))
	heard, err := s.rdb.Publish(s.t.Context(), "crawler:control", text).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	if heard == 0 { // its connection was cut a moment ago
		s.asked.forget(id)
	}
}

func (q *questions) add(id, text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent++
	q.waiting[id] = text
}

// doubt gives up all that wait: nobody knows whether they were heard.
func (q *questions) doubt() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.waiting)
}

func (q *questions) forget(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiting, id)
}

func (q *questions) open() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *questions) heard(text string) {
	var reply struct {
		ID      string
		Error   string
		Results map[string]struct {
			OK    bool
			Error string
		}
	}
	_ = json.Unmarshal([]byte(text), &reply)
	q.forget(reply.ID)
	q.mu.Lock()
	defer q.mu.Unlock()
	if reply.Error != "" {
		q.refused[reply.Error]++
	}
	for _, result := range reply.Results {
		if !result.OK {
			q.refused[result.Error]++
		}
	}
}

func (q *questions) String() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Sprintf("%d commands, these wait for their answer: %v, refused: %v", q.sent, q.waiting, q.refused)
}

// readers follow outputs, a few at a time.
type readers struct {
	t    *testing.T
	ends []context.CancelFunc
	done sync.WaitGroup
}

const mostReaders = 8

func newReaders(t *testing.T) *readers {
	r := &readers{t: t}
	t.Cleanup(r.close)
	return r
}

func (r *readers) follow(url string) {
	if len(r.ends) >= mostReaders {
		r.ends[0]()
		r.ends = r.ends[1:]
	}
	ctx, end := context.WithCancel(context.Background())
	r.ends = append(r.ends, end)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.done.Go(func() {
		if answer, err := http.DefaultClient.Do(request); err == nil {
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, answer.Body)
		}
	})
}

func (r *readers) close() {
	for _, end := range r.ends {
		end()
	}
	r.ends = nil
	r.done.Wait()
	http.DefaultClient.CloseIdleConnections()
}
