package health

import (
	"context"
	"time"
)

// askLimit bounds a question for facts. A server that takes longer is away.
const askLimit = 5 * time.Second

// asker asks one server for the facts of all looks that are due, one question at a time. It belongs to the goroutine of Run.
type asker struct {
	ask     func(ctx context.Context, due []*look) (answer func(asked, back time.Time), err error)
	waiting []*look
	busy    bool
	away    bool
	rest    time.Time // not asked before
	back    time.Time // when the server answered again after it was away; zero where it never was
}

func (a *asker) wait(l *look) { a.waiting = append(a.waiting, l) }

// restShare is how much longer a server has its rest than a question took it, and longestRest bounds that: a table of runs
// without the right index must not be read all the time.
const (
	restShare   = 9
	longestRest = 15 * time.Second
)

// next asks for all that wait, where no question is under way. It returns when to come again, at the latest.
func (a *asker) next(ctx context.Context, m *Monitor, now time.Time) time.Duration {
	switch {
	case a.busy || len(a.waiting) == 0:
		return idle
	case now.Before(a.rest):
		return a.rest.Sub(now)
	}
	due := a.waiting
	a.waiting, a.busy = nil, true
	m.inFlight.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		answer, err := a.ask(ctx, due)
		m.post(func(context.Context) {
			a.busy, a.rest = false, time.Now().Add(min(restShare*time.Since(now), longestRest))
			if err != nil {
				a.away = true
				for _, l := range due {
					m.settle(l, result{unknown: true})
				}
				return
			}
			if a.away {
				a.away, a.back = false, now
			}
			answer(now, a.back)
		})
	})
	return idle
}

// askKeys asks Redis.
func (m *Monitor) askKeys(ctx context.Context, due []*look) (func(asked, back time.Time), error) {
	var ticks, hearts []string
	for _, l := range due {
		if l.Kind == TickTaken {
			ticks = append(ticks, l.watch.Source)
		} else {
			hearts = append(hearts, l.watch.Source)
		}
	}
	waiting, beats, err := m.o.Keys(ctx, ticks, hearts)
	return func(asked, back time.Time) {
		for _, l := range due {
			if l.Kind == TickTaken {
				m.settle(l, l.tickTaken(waiting[l.watch.Source], asked, back))
			} else {
				m.settle(l, l.heartbeat(beats[l.watch.Source], asked, back))
			}
		}
	}, err
}

// askRuns asks Postgres.
func (m *Monitor) askRuns(ctx context.Context, due []*look) (func(asked, back time.Time), error) {
	sources := make([]string, len(due))
	for i, l := range due {
		sources[i] = l.watch.Source
	}
	open, err := m.o.Runs(ctx, sources)
	return func(asked, back time.Time) {
		for _, l := range due {
			w := l.watch
			w.sawRun(open[w.Source], asked)
			switch {
			case w.run.IsZero():
				m.settle(l, result{})
			case l.Kind == Run:
				m.settle(l, tooLong("a run is open", w.runSince, back, asked, l.For))
			default:
				m.settle(l, l.output(asked, back))
			}
		}
	}, err
}

func (l *look) tickTaken(seen Seen, asked, back time.Time) result {
	w := l.watch
	if seen.Err != nil { // said by who pushes; no crawler can take anything from it
		return result{unknown: true}
	}
	w.sawTick(seen.Text, asked)
	if w.tickSince.IsZero() {
		return result{}
	}
	return tooLong("a tick waits", w.tickSince, back, asked, l.For)
}

func (l *look) heartbeat(seen Seen, asked, back time.Time) result {
	w := l.watch
	if seen.Err != nil {
		return result{why: "it cannot be read: " + seen.Err.Error()}
	}
	w.sawBeat(seen.Text, asked)
	switch {
	case seen.Text != "":
		return tooLong("it has not moved", w.beatSince, back, asked, l.For)
	case !back.IsZero() && asked.Sub(back) <= l.For: // it went with the server
		return result{unknown: true}
	}
	return result{why: "it is gone"}
}

func (l *look) output(asked, back time.Time) result {
	w := l.watch
	since := later(w.Started, w.runSince)
	if w.LastLine != nil {
		since = later(since, w.LastLine())
	}
	return tooLong("no line while a run is open", since, back, asked, l.For)
}
