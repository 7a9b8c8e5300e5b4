package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
)

// TestAMillionCommands sends random messages to a real manager: garbage, what is almost a command, and commands. Each that has an id is
// answered once, nothing else is, and in the end the fleet is as it was, in as much memory. A million in `make test-long`, fewer otherwise.
func TestAMillionCommands(t *testing.T) {
	t.Parallel()
	total := 10_000
	if os.Getenv("CRAWLKEEPER_TEST_LONG") != "" {
		total = 1_000_000
	}
	w := newWorld(t)
	w.configure(adapter(t, "*", quick, testenv.StandIn(t), "-ticks", "-children", "1"))
	codes := []string{"a", "b", "c", "d", "ü:1"}
	for _, code := range codes {
		w.source(code, "", "https://example.org/", time.Hour)
	}
	m := w.run("test")
	for _, code := range codes {
		w.running(code)
	}
	f := &flood{world: w, random: rand.New(rand.NewPCG(1, 2)), owed: make(map[string]int)}
	replies(t, f.rdb, f.heard)
	began := time.Now()
	var memory []float64
	for sent := 0; sent < total; sent += floodBatch {
		f.batch(floodBatch)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Pid()))
		if err != nil {
			t.Fatalf("after %d messages: %v", sent, err)
		}
		memory = append(memory, number(string(text), "VmRSS:")/1024)
	}
	if slices.Min(memory) <= 0 {
		t.Fatalf("the memory cannot be read: %v", memory)
	}
	second, last := median(quarter(memory, 1)), median(quarter(memory, 3))
	t.Logf("figure: %d messages in %v, %d commands with an id and %d bad ones with one were answered; memory in the second quarter %.1f MiB, in the last %.1f MiB",
		total, time.Since(began).Round(time.Second), f.commands, f.bad, second, last)
	if last > 1.1*second+2 {
		t.Errorf("memory grew from %.1f to %.1f MiB", second, last)
	}
	f.batch(floodBurst)
	for _, action := range []string{"start", "resume"} {
		f.send(fmt.Sprintf(`{"action":%q,"source":"all","id":"last-%s"}`, action, action))
	}
	f.settle()
	for _, code := range codes {
		w.running(code)
	}
	m.stop()
}

// How many messages are on their way at once: most of the time, and in the end. Whoever has 5,000 sources may ask for something of each.
const (
	floodBatch = 500
	floodBurst = 5000
)

// flood sends messages and counts answers.
type flood struct {
	*world
	random        *rand.Rand
	n             int // of the last message
	commands, bad int // that were answered

	mu    sync.Mutex
	owed  map[string]int // guarded by mu; answers, by id, that are still to come
	wrong []string       // guarded by mu; answers that nobody waits for, and those of the wrong kind
}

func (f *flood) heard(text string) {
	var reply control.Reply
	err := json.Unmarshal([]byte(text), &reply)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owed[reply.ID]--; err != nil || f.owed[reply.ID] < 0 {
		f.wrong = append(f.wrong, text)
	}
	if f.owed[reply.ID] == 0 {
		delete(f.owed, reply.ID)
	}
}

// batch sends messages, and waits for what is owed for them.
func (f *flood) batch(n int) {
	f.t.Helper()
	pipe := f.rdb.Pipeline()
	for range n {
		if text := f.message(); f.expect(text) {
			pipe.Publish(f.t.Context(), "crawler:control", text)
		}
	}
	if _, err := pipe.Exec(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.settle()
}

func (f *flood) send(text string) {
	f.t.Helper()
	if !f.expect(text) {
		f.t.Fatalf("%s is no message for this test", text)
	}
	if err := f.rdb.Publish(f.t.Context(), "crawler:control", text).Err(); err != nil {
		f.t.Fatal(err)
	}
}

// expect notes what is owed for a message. False for one that takes as long as it says.
func (f *flood) expect(text string) bool {
	command, err := control.Parse([]byte(text))
	if command.Stagger > 0 {
		return false
	}
	id := command.ID
	if bad, ok := errors.AsType[*control.ParseError](err); ok {
		id = bad.ID
	}
	if id == "" {
		return true
	}
	if err != nil {
		f.bad++
	} else {
		f.commands++
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owed[id]++
	return true
}

// settle waits until nothing is owed.
func (f *flood) settle() {
	f.t.Helper()
	f.eventually("all that has an id is answered", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.wrong) > 0 {
			f.t.Fatalf("unasked: %s", f.wrong)
		}
		return len(f.owed) == 0
	})
}

// message makes one message.
func (f *flood) message() string {
	f.n++
	switch n := f.random.IntN(1000); {
	case n < 200:
		return f.noise(f.random.IntN(300))
	case n < 202:
		return f.noise(f.random.IntN(100 << 10))
	case n < 204: // of more than a command may have
		return `{"id":"` + f.id() + `","action":"tick","x":"` + strings.Repeat("x", control.MaxSize) + `"}`
	case n < 600:
		return f.damaged(f.command())
	case n < 800:
		return f.object()
	}
	return f.command()
}

func (f *flood) id() string { return fmt.Sprint("m", f.n) }

func (f *flood) noise(size int) string {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(f.random.IntN(256))
	}
	return string(b)
}

// command is one that may be given. Most change little: starts take their time.
func (f *flood) command() string {
	source := f.pick(`"a"`, `"b"`, `["c","d"]`, `"ü:1"`, `"adapter:*"`, `"nobody"`, `"all"`)
	action := f.pick("tick", "tick", "pause", "resume", "resume")
	if f.random.IntN(50) == 0 {
		action = f.pick("restart", "stop", "start", "start", "reload")
	}
	return fmt.Sprintf(`{"action":%q,"source":%s,"id":%q,"by":"flood","reason":"é\n"}`, action, source, f.id())
}

func (f *flood) pick(from ...string) string { return from[f.random.IntN(len(from))] }

// damaged changes, adds or removes some bytes.
func (f *flood) damaged(text string) string {
	b := []byte(text)
	for range 1 + f.random.IntN(3) {
		switch at := f.random.IntN(len(b) + 1); {
		case at == len(b):
			b = append(b, byte(f.random.IntN(256)))
		case f.random.IntN(2) == 0:
			b[at] = byte(f.random.IntN(256))
		default:
			b = append(b[:at], b[at+f.random.IntN(len(b)-at):]...)
		}
	}
	return string(b)
}

// object has the fields of commands, with values of any type.
func (f *flood) object() string {
	var fields []string
	for _, name := range []string{"action", "source", "id", "by", "until", "reason", "rolling", "max_down", "remove", "Action", "x"} {
		if f.random.IntN(2) == 0 {
			value := f.pick(`"restart"`, `"tick"`, `"a"`, `["a","b"]`, `[]`, `{}`, `null`, `7`, `-1e300`, `true`, `"2030-01-01T00:00:00Z"`, `"`+f.id()+`"`, `[[[["a"]]]]`, `""`)
			fields = append(fields, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}
