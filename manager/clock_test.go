package manager

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/manager/schedule"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// set sets the wall clock, forward or back.
func (b *bench) set(by time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skew += by
}

// told lists what was pushed: when, for whom, and the name of its due time.
func (b *bench) told() string {
	var out []string
	for _, p := range b.sent() {
		out = append(out, fmt.Sprintf("%v %s %s", time.Duration(p.at.mono), p.code, p.due.UTC().Format("15:04:05.999999")))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func cronRow(code, line string) sql.Source {
	r := row(code, 60)
	r.Schedule = line
	return r
}

// The loop turns each second, at whole seconds here, and sees then how the wall clock was set.
const half = 500 * time.Millisecond

// A bubble begins at midnight. Each story: what happens, and all ticks after that of the start.
func TestTheWallClockIsSet(t *testing.T) {
	t.Parallel()
	every := func(b *bench) { b.poll(row("i", 1200), cronRow("c", "*/10 * * * *")) }
	for name, c := range map[string]struct {
		story func(b *bench)
		want  string
	}{
		"back": {func(b *bench) {
			every(b)
			b.wait(15*time.Minute + half)
			b.set(-time.Hour)
			b.wait(80 * time.Minute)
		}, `10m0s c 00:10:00, 20m0s i 00:20:00, 40m0s i 00:40:00, 1h0m0s i 01:00:00, 1h20m0s c 00:20:00, 1h20m0s i 01:20:00, 1h30m0s c 00:30:00`},
		"forward": {func(b *bench) {
			every(b)
			b.wait(15*time.Minute + half)
			b.set(time.Hour)
			b.wait(20 * time.Minute)
		}, `10m0s c 00:10:00, 15m1s c 00:20:00, 20m0s c 01:20:00, 20m0s i 00:20:00, 30m0s c 01:30:00`},
		"forward and back": {func(b *bench) {
			every(b)
			b.wait(15*time.Minute + half)
			b.set(time.Hour)
			b.wait(2 * time.Minute)
			b.set(-time.Hour)
			b.wait(25 * time.Minute)
		}, `10m0s c 00:10:00, 15m1s c 00:20:00, 20m0s i 00:20:00, 30m0s c 00:30:00, 40m0s c 00:40:00, 40m0s i 00:40:00`},
		"forward, and back after a regular tick": {func(b *bench) {
			every(b)
			b.wait(15*time.Minute + half)
			b.set(time.Hour)
			b.wait(10 * time.Minute)
			b.set(-time.Hour)
			b.wait(70 * time.Minute)
		}, `10m0s c 00:10:00, 15m1s c 00:20:00, 20m0s c 01:20:00, 20m0s i 00:20:00, 40m0s i 00:40:00, 1h0m0s i 01:00:00, 1h20m0s i 01:20:00, 1h30m0s c 01:30:00`},
		"back and forward": {func(b *bench) {
			every(b)
			b.wait(15*time.Minute + half)
			b.set(-time.Hour)
			b.wait(2 * time.Minute)
			b.set(time.Hour)
			b.wait(15 * time.Minute)
		}, `10m0s c 00:10:00, 20m0s c 00:20:00, 20m0s i 00:20:00, 30m0s c 00:30:00`},
		"forward, what was missed is skipped": {func(b *bench) {
			b.skipMissed()
			every(b)
			b.wait(15*time.Minute + half)
			b.set(time.Hour)
			b.wait(2 * time.Minute)
			b.set(-time.Hour)
			b.wait(15 * time.Minute)
			b.set(time.Hour)
			b.wait(10 * time.Minute)
		}, `10m0s c 00:10:00, 20m0s c 00:20:00, 20m0s i 00:20:00, 30m0s c 00:30:00, 40m0s c 01:40:00, 40m0s i 00:40:00`},
		"back, while a push is on its way": {func(b *bench) {
			b.skipMissed()
			every(b)
			b.wait(15*time.Minute + half)
			b.set(time.Hour)
			b.wait(4 * time.Minute)
			b.mu.Lock()
			hold := make(chan struct{})
			b.hold = hold
			b.mu.Unlock()
			b.wait(time.Minute)
			b.set(-time.Hour)
			b.wait(2 * time.Second)
			b.mu.Lock()
			b.hold = nil
			b.mu.Unlock()
			close(hold)
			b.wait(70 * time.Minute)
		}, `10m0s c 00:10:00, 20m0s c 01:20:00, 20m0s i 00:20:00, 40m0s i 00:40:00, 1h0m0s i 01:00:00, 1h20m0s i 01:20:00, 1h30m0s c 01:30:00`},
		"back, while a tick waits that the next start deletes": {func(b *bench) {
			b.track("c")
			b.poll(cronRow("c", "*/10 * * * *"))
			b.wait(15*time.Minute + half)
			b.mu.Lock()
			b.busy = false
			b.mu.Unlock()
			b.wait(5 * time.Minute)
			b.set(-time.Hour)
			b.wait(time.Second)
			b.crash("c")
			b.wait(10 * time.Second)
			b.set(-10 * time.Minute)
			b.wait(80 * time.Minute)
		}, `10m0s c 00:10:00, 20m0s c 00:20:00, 1h30m0s c 00:20:00`},
		"back, with a row that changes": {func(b *bench) {
			every(b)
			b.wait(15*time.Minute + half)
			b.set(-10 * time.Minute)
			b.poll(row("i", 1200), cronRow("c", "*/5 * * * *"))
			b.wait(15 * time.Minute)
		}, `10m0s c 00:10:00, 20m0s i 00:20:00, 25m0s c 00:15:00, 30m0s c 00:20:00`},
		"a little at a time": {func(b *bench) {
			every(b)
			b.wait(10*time.Minute + half)
			for range 10 {
				b.set(-200 * time.Millisecond)
				b.wait(time.Second)
			}
			b.wait(11 * time.Minute)
			for range 30 {
				b.set(70 * time.Millisecond) // less than counts, more than that together
				b.wait(time.Second)
			}
			b.wait(10 * time.Minute)
		}, `10m0s c 00:10:00, 20m0s i 00:20:00, 20m2s c 00:20:00, 29m59.9s c 00:30:00`},
		"paused": {func(b *bench) {
			i, c := row("i", 1200), cronRow("c", "*/10 * * * *")
			i.PausedUntil = time.Now().Add(30 * time.Minute)
			c.PausedUntil = i.PausedUntil
			b.poll(i, c)
			b.wait(15*time.Minute + half)
			b.set(time.Hour) // the pause is over
			b.wait(10 * time.Minute)
			b.set(-time.Hour) // it is on again, until its time comes once more
			b.wait(70 * time.Minute)
		}, `15m1s c 01:15:01, 15m1s i 01:15:01, 20m0s c 01:20:00, 30m0s c 01:20:00.000001, 30m0s i 00:30:00, 50m0s i 00:50:00, 1h10m0s i 01:10:00, 1h30m0s c 01:30:00, 1h30m0s i 01:30:00`},
		"a pause that a jump back makes longer": {func(b *bench) {
			i := row("i", 1200)
			i.PausedUntil = time.Now().Add(30 * time.Minute)
			b.poll(i)
			b.wait(15*time.Minute + half)
			b.set(-time.Hour)
			b.wait(80 * time.Minute)
		}, `1h30m0s i 00:30:00`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleetBubble(t, func(b *bench) {
				b.busy = true
				c.story(b)
				b.noneTwice()
				got := strings.ReplaceAll(b.told(), "\n", ", ")
				if want := sorted(c.want); sorted(strings.TrimPrefix(got, "0s i 00:00:00, ")) != want {
					t.Errorf("got\n%s, want\n%s", sorted(got), want)
				}
			})
		})
	}
}

func sorted(list string) string {
	items := strings.Split(list, ", ")
	slices.Sort(items)
	return strings.Join(items, ", ")
}

// noneTwice checks that nothing was pushed that the server had to refuse.
func (b *bench) noneTwice() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.twice != 0 {
		b.t.Errorf("%d pushes of due times that had gone out, or lie before such", b.twice)
	}
}

// wait lets time pass.
func (b *bench) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) skipMissed() {
	adapter := b.conf.Adapters["*"]
	adapter.Misfire = configs.MisfireSkip
	b.conf.Adapters["*"] = adapter
}

// What the status shows is on the wall clock as it is now, and stays the same while that runs evenly.
func TestTheStatusFollowsTheWallClock(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.busy = true
		b.poll(row("i", 1200), cronRow("c", "*/10 * * * *"))
		b.wait(half)
		shows := func(code, want string) {
			t.Helper()
			b.run(func() {
				var r status.Record
				b.record(b.sources[code], &r, b.clock.now())
				if got := r.NextRunAt.UTC().Format("15:04:05.999999999"); got != want {
					t.Errorf("%s: %s, want %s", code, got, want)
				}
			})
		}
		shows("i", "00:20:00")
		b.set(50 * time.Millisecond)
		b.wait(time.Second)
		shows("i", "00:20:00")
		b.do(control.Command{Action: "restart", Sources: []string{"i"}})
		sent := b.sent()
		shows("i", sent[len(sent)-1].due.Add(20*time.Minute).Format("15:04:05.999999999"))
		b.set(-5*time.Hour - 50*time.Millisecond)
		b.wait(time.Second)
		shows("i", "19:20:02.5")
		shows("c", "19:10:00")
	})
}

// A restart's tick goes out also where the clock shows a time before the last tick of the cron line.
func TestARestartAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		adapter := b.conf.Adapters["*"]
		adapter.OnStart = configs.OnStartTick
		b.conf.Adapters["*"] = adapter
		b.poll(cronRow("c", "*/10 * * * *"))
		b.one("at the start", triggerStartup)
		b.take("c")
		b.wait(10*time.Minute + half)
		b.one("regular", triggerSchedule)
		b.take("c")
		b.set(-time.Hour)
		b.do(control.Command{Action: "restart", Sources: []string{"c"}})
		b.one("after the restart", triggerRestart)
		b.take("c")
		b.wait(69 * time.Minute)
		b.nothing("until the clock shows a time past the last tick")
		b.wait(time.Minute)
		b.one("then", triggerSchedule)
	})
}

func TestJitterDelaysTicks(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.busy = true
		i, c := row("i", 600), cronRow("c", "*/10 * * * *")
		i.Jitter, c.Jitter = time.Minute, time.Minute
		b.poll(i, c)
		b.wait(65 * time.Minute)
		got := b.sent()
		if len(got) != 13 {
			t.Errorf("%d ticks", len(got))
		}
		for _, p := range got {
			late := p.at.wall.Sub(p.due)
			if plan := b.plan(p.code); late <= 0 || late != plan.Spread(p.code, p.due) {
				t.Errorf("%s, due %v, went out %v later", p.code, p.due, late)
			}
		}
	})
}

// step is what happens in the property below, after some time.
type step struct {
	after time.Duration
	set   time.Duration // the wall clock
	line  string        // of the cron source from now on
	pause time.Duration // of the source that is paused; less than zero ends it
}

func drawStep(r *rapid.T) step {
	minutes := func(name string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(r, name)) * time.Minute
	}
	s := step{after: minutes("after", 1, 40)}
	switch rapid.IntRange(0, 4).Draw(r, "what") {
	case 0:
		s.line = rapid.SampledFrom([]string{"*/10 * * * *", "5,25 * * * *", "*/7 * * * *"}).Draw(r, "line")
	case 1:
		s.pause = minutes("pause", -1, 60)
	default:
		s.set = minutes("set", -90, 90)
	}
	return s
}

// However the wall clock is set: no due time of a cron line goes out twice or after a later one; all that the clock shows
// as it runs, and that lie past the last, go out on time; a jump brings one tick at most; an interval never notices; no
// source gets a tick while it is paused.
func TestTheWallClockIsSetAtRandom(t *testing.T) {
	t.Parallel()
	for range 3 {
		rapid.Check(t, func(r *rapid.T) {
			steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 12).Draw(r, "steps")
			fleetBubble(t, func(b *bench) {
				b.busy = true
				w := clockWatch{t: t, b: b, line: "*/10 * * * *"}
				w.poll()
				b.wait(half)
				for _, s := range steps {
					w.step(s)
				}
				w.run(2 * time.Hour)
				b.noneTwice()
			})
		})
	}
}

// clockWatch is what the property knows of three sources: c has a cron line, i an interval, p is paused now and then.
type clockWatch struct {
	t       *testing.T
	b       *bench
	line    string
	paused  time.Time // p is, on the wall clock
	last    time.Time // pushed for c
	jumped  bool      // forward, and no tick came of that yet
	elapsed mono      // of i's last tick
}

func (w *clockWatch) poll() {
	p := cronRow("p", "*/3 * * * *")
	p.PausedUntil = w.paused
	w.b.poll(cronRow("c", w.line), row("i", 420), p)
}

func (w *clockWatch) step(s step) {
	w.run(s.after)
	switch {
	case s.line != "":
		w.line = s.line
		w.poll()
	case s.pause != 0:
		w.paused = w.b.clock.now().wall.Add(s.pause)
		w.poll()
	default:
		w.b.set(s.set)
		w.jumped = s.set > 0
	}
}

// run lets time pass, and looks at all that came.
func (w *clockWatch) run(d time.Duration) {
	from, lastBefore := w.b.clock.now().wall, w.last
	plan := w.b.plan("c")
	w.b.wait(d)
	to := w.b.clock.now().wall
	onTime := map[int64]bool{}
	for _, p := range w.b.sent() {
		switch p.code {
		case "c":
			if !p.due.After(w.last) {
				w.t.Errorf("c: due %v after %v", p.due, w.last)
			}
			late := p.at.wall.Sub(p.due)
			if late != 0 && (late < 0 || !w.jumped || p.at.wall.Sub(from) > time.Second) {
				w.t.Errorf("c: due %v went out at %v", p.due, p.at.wall)
			}
			w.last, w.jumped = p.due, w.jumped && late == 0
			onTime[p.due.Unix()] = late == 0
		case "i":
			if p.at.mono != 0 && p.at.mono-w.elapsed != mono(7*time.Minute) {
				w.t.Errorf("i: %v after the last", time.Duration(p.at.mono-w.elapsed))
			}
			w.elapsed = p.at.mono
		case "p":
			if w.paused.After(p.at.wall) {
				w.t.Errorf("p: paused until %v, a tick at %v", w.paused, p.at.wall)
			}
		}
	}
	for due := plan.Next(time.Time{}, latest(from, lastBefore)); !due.After(to); due = plan.Next(time.Time{}, due) {
		if !onTime[due.Unix()] {
			w.t.Errorf("c: due %v did not go out, from %v to %v, last %v", due, from, to, lastBefore)
		}
	}
}

func (b *bench) plan(code string) (p schedule.Plan) {
	b.run(func() { p = b.sources[code].plan })
	return p
}
