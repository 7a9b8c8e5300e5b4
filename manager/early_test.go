package manager

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/status"
	"crawlkeeper/worker"
)

// send is a command without somebody who waits; told counts the replies by their error.
func (b *bench) send(c control.Command, told map[string]int) {
	b.run(func() { b.command(c, func(r control.Reply) { told[r.Error]++ }) })
}

// A `stop all` that was sent while Postgres was away must not take effect hours later.
func TestNoCommandWaitsLongForTheFirstPoll(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		told := map[string]int{}
		b.send(control.Command{Action: control.ActionStop, All: true}, told)
		time.Sleep(earlyLimit - time.Nanosecond)
		b.send(control.Command{Action: control.ActionPause, All: true, ID: "1"}, told)
		b.run(func() {
			if len(told) != 0 {
				t.Errorf("before: %v", told)
			}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		b.run(func() {
			if told[errTooEarly.Error()] != 1 || len(b.early) != 1 {
				t.Errorf("told %v, %d wait", told, len(b.early))
			}
		})
		b.poll(row("a", 60))
		b.run(func() {
			if s := b.sources["a"]; s.row.Wanted != sqlUp || !s.paused {
				t.Errorf("wanted %q, paused %v", s.row.Wanted, s.paused)
			}
		})
	})
}

func TestWhatComesTooEarlyIsBounded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.logger = slog.New(slog.NewTextHandler(&log, nil))
		end := b.launch(t.Context())
		told := map[string]int{}
		for range maxEarly + 100 {
			b.send(control.Command{Action: control.ActionStop, All: true}, told)
		}
		if told[errManyEarly.Error()] != 100 {
			t.Errorf("told %v", told)
		}
		end() // which answers the others
		b.command(control.Command{Action: control.ActionStop, All: true}, func(r control.Reply) { told[r.Error]++ })
		if told[worker.ErrShutdown.Error()] != maxEarly+1 {
			t.Errorf("at the end: told %v", told)
		}
		if n := strings.Count(log.String(), "a command is refused"); n == 0 || n > 10 {
			t.Errorf("%d lines", n)
		}
		scraped := httptest.NewRecorder()
		status.Handler(status.HandlerOptions{Metrics: b.metrics}).ServeHTTP(scraped, httptest.NewRequest("GET", "/metrics", nil))
		if want := fmt.Sprintf("crawlkeeper_commands_total{action=\"stop\",result=\"error\"} %d\n", maxEarly+101); !strings.Contains(scraped.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	})
}
