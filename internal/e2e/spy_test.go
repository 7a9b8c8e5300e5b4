package e2e

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"
)

// spy sees every tick that goes out, also those that are taken at once: redis-cli writes down what the server is told.
type spy struct {
	w *world
	p *program
}

func (w *world) spy() *spy {
	w.t.Helper()
	s := &spy{w, w.start("", os.Environ(), w.redisCLI("monitor")...)}
	w.eventually("the spy listens", func() bool { return strings.HasPrefix(s.seen(), "OK\n") })
	return s
}

func (s *spy) seen() string {
	text, err := os.ReadFile(s.p.printed)
	if err != nil {
		s.w.t.Fatal(err)
	}
	return string(text)
}

// tick is what a crawler gets, as far as these tests look at it.
type tick struct {
	Trigger string
	History *struct{ Target, Position *time.Time }
}

// ticks that went out to a source so far.
func (s *spy) ticks(code string) []tick {
	s.w.t.Helper()
	var all []tick
	for line := range strings.Lines(s.seen()) {
		_, quoted, ok := strings.Cut(strings.TrimSpace(line), ` "LPUSH" "crawler:`+code+`:start_urls" `)
		if !ok {
			continue
		}
		var got tick
		text, err := strconv.Unquote(quoted)
		if err == nil {
			err = json.Unmarshal([]byte(text), &got)
		}
		if err != nil {
			s.w.t.Fatalf("%s: %v", line, err)
		}
		all = append(all, got)
	}
	return all
}
