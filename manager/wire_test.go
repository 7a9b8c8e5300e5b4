package manager

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv/wire"
)

func TestTheWireToRedisBreaks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault func(*wire.Wire)
		away  bool
	}{
		"cut":                  {func(w *wire.Wire) { w.Cut() }, true},
		"half open":            {func(w *wire.Wire) { w.Silence(t) }, true},
		"answers are cut":      {func(w *wire.Wire) { w.CutAnswers(t, 0) }, true},
		"slow":                 {func(w *wire.Wire) { w.Slow(t, 300*time.Millisecond) }, false},
		"slower than patience": {func(w *wire.Wire) { w.Slow(t, redisTimeout+time.Second) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			cable := wire.New(t, w.redis.Addr())
			w.write(strings.Replace(w.text, w.redis.URL(), cable.URL(t, w.redis.URL()), 1))
			var lines logLines
			w.log = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelInfo}))
			w.source("a", "b")
			w.pg.Exec(t, `update sources set interval_seconds=1`)
			r := w.start()
			first := w.reports(2)
			seen := map[string]bool{}
			saw := func(text string) {
				t.Helper()
				var tick struct {
					ID string `json:"tick_id"`
				}
				if err := json.Unmarshal([]byte(text), &tick); err != nil || tick.ID == "" || seen[tick.ID] {
					t.Errorf("%v, %q, seen: %v", err, tick.ID, seen[tick.ID])
				}
				seen[tick.ID] = true
			}
			take := func(code string) {
				t.Helper()
				saw(w.tickOf(code))
				if n := w.rdb.LLen(context.Background(), "crawler:"+code+":start_urls").Val(); n > 1 {
					t.Errorf("%d ticks wait for %s", n, code)
				}
			}
			take("a")
			take("b")
			c.fault(cable)
			if c.away {
				eventually(t, "it is not ready", func() bool { return r.readiness() != nil })
				eventually(t, "ticks are held", func() bool {
					var hold time.Duration
					r.ask(context.Background(), func() { hold = r.fleet.hold })
					for _, code := range []string{"a", "b"} {
						if text, err := w.rdb.LPop(context.Background(), "crawler:"+code+":start_urls").Result(); err == nil {
							saw(text) // it went out, and its answer was lost
						}
					}
					return hold > 0
				})
			} else {
				for range 3 {
					take("a")
				}
			}
			cable.Heal(t)
			for range 2 {
				take("a")
				take("b")
			}
			eventually(t, "it is ready", func() bool { return r.readiness() == nil })
			for _, s := range first {
				if !alive(s.pid) {
					t.Errorf("the crawler of %s is gone", s.code)
				}
			}
			w.none()
			if err := r.health(); err != nil {
				t.Error(err)
			}
			if n := lines.count("does not take ticks"); c.away && n < 1 || n > 2 { // one for the fault; Heal closes connections
				t.Errorf("it said %d times that ticks are held", n)
			}
			if n := lines.count("level=WARN") + lines.count("level=ERROR"); n > 12 {
				t.Errorf("%d lines:\n%s", n, lines.text.String())
			}
		})
	}
}
