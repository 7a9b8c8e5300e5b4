package manager

import (
	"context"
	"fmt"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
)

// Rest: a source whose runs fail again and again is paused by itself, longer each time, and gets one tick as a probe when
// the pause is over.
//
//	state     where it is kept                              goes to
//	works     Rest.Level 0                                  rests, after max_failures runs in a row that failed
//	rests     Rest.Level > 0, paused_until in the future    probes, at the end of the pause; works, by a run that succeeded
//	probes    Rest.Level > 0, paused_until in the past      rests (longer), works: by how the probe's run ended
//
// From everywhere to works: resume, restart, a pause that somebody asks for, and a paused_until that somebody else wrote. All
// of it stands in the database, so that another manager goes on from there. What runs became is read from crawl_runs, for
// the sources for which that may have changed.

// streaks reads how runs ended.
type streaks interface {
	Streaks(ctx context.Context, sources []sql.StreakQuery, v sql.Verdicts) (map[string]sql.Streak, error)
}

const (
	// Runs are looked at this long after the last look at the earliest.
	lookEvery = 2 * time.Second
	// A run that lasts is looked at more and more rarely, up to this.
	lookRarest = 30 * time.Second
	// lookBatch is how many sources one statement takes.
	lookBatch = 500
	lookLimit = 10 * time.Second
	// probeEarly is how much earlier than the end of the pause, by the crawler's clock, the run of a probe may have been started.
	probeEarly = 10 * time.Second
)

// restedBy stands in paused_by where the manager paused a source by itself.
const restedBy = "crawlkeeper"

// looks is what a source waits to learn from crawl_runs. It belongs to the goroutine of fleet.Run.
type looks struct {
	at    mono   // the next one; zero = nothing is to be learned
	since moment // what may have changed did so then
	clear bool   // since the crawler was started, or the pause ended, no run was seen open: a probe may go out
	open  bool   // a run was open at the last look
	probe mono   // the probe went out then; zero = none did
}

// rests tells whether the manager paused this source by itself and does not know yet that it is well.
func (s *source) rests() bool { return s.row.Rest.Level > 0 }

// mayProbe tells whether a tick may go out to a source that rests and whose pause is over.
func (s *source) mayProbe() bool { return s.looks.clear && s.looks.probe == 0 }

// lookSoon notes that the runs of a source may say something new.
func (f *fleet) lookSoon(s *source) {
	if s.adapter.MaxFailures == 0 && !s.rests() {
		return
	}
	now := f.clock.now()
	s.looks.since = now
	if at := now.mono + mono(lookEvery); s.looks.at == 0 || at < s.looks.at { // never later: ticks may come more often
		s.looks.at = at
	}
}

// look reads how the runs of all sources ended for which it is time.
func (f *fleet) look(now moment) {
	if f.looking || now.mono < f.nextLook || f.draining || !f.loaded {
		return
	}
	f.nextLook = now.mono + mono(lookEvery)
	var due []*source
	for _, s := range f.sources {
		if s.looks.at != 0 && s.looks.at <= now.mono && len(due) < lookBatch {
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return
	}
	queries := make([]sql.StreakQuery, len(due))
	for i, s := range due {
		queries[i] = sql.StreakQuery{Source: s.code, Since: s.row.Rest.Since, Most: max(1, s.adapter.MaxFailures)}
	}
	f.looking = true
	ctx, verdicts := f.workCtx, f.verdicts()
	f.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, lookLimit)
		defer cancel()
		got, err := f.streaks.Streaks(ctx, queries, verdicts)
		f.inbox.put(func() {
			f.looking = false
			for i, s := range due {
				if s.gone {
					continue
				}
				if err != nil { // Postgres is away; its absence is told elsewhere
					s.looks.at = f.clock.now().mono + mono(lookRarest/2)
					continue
				}
				if s.row.Rest.Since.Equal(queries[i].Since) {
					f.learn(s, got[s.code], now)
				}
			}
		})
	})
}

// verdicts says which runs count.
func (f *fleet) verdicts() sql.Verdicts {
	v := sql.Verdicts{Succeeded: f.conf.Runs.Succeeded, Failed: f.conf.Runs.Failed}
	for _, c := range worker.Causes {
		if c.Unwanted() {
			v.Crashes = append(v.Crashes, interruption(f.interruptedText, c))
		}
	}
	return v
}

// interruption is how the error of a run begins whose crawler ended for this cause.
func interruption(text string, c worker.Cause) string { return fmt.Sprintf("%s (%s:", text, c) }

// learn does what follows from how the newest runs of a source ended, as it was read at a time.
func (f *fleet) learn(s *source, v sql.Streak, asked moment) {
	now := f.clock.now()
	s.looks.at, s.looks.open = 0, v.Open
	if s.looks.since.mono > asked.mono || v.Open || v.Newest.Before(s.looks.since.wall) { // there is more to come
		s.looks.at = now.mono + min(max(mono(lookEvery), (now.mono-s.looks.since.mono)/4), mono(lookRarest))
	}
	paused := s.row.PausedUntil.After(now.wall)
	switch {
	case !s.rests():
		if most := s.adapter.MaxFailures; most > 0 && v.Failures >= most && !paused {
			f.rest(s, 1, fmt.Sprintf("%d runs in a row failed", most), v.NewestError)
		}
		return
	case !v.Newest.IsZero() && !v.NewestFailed:
		f.log(s.code, levelInfo, "a run succeeded: the source does not rest any more")
		f.logger.Info("a source does not rest any more: a run succeeded", "source", s.code)
		f.wake(s)
		return
	case paused:
		return
	case v.NewestFailed && v.Newest.After(s.row.PausedUntil.Add(-probeEarly)):
		f.rest(s, s.row.Rest.Level+1, "the probe failed", v.NewestError)
		return
	}
	if !v.Open && s.looks.since.mono <= asked.mono {
		s.looks.clear = true
	}
	if !v.Open && s.looks.probe != 0 && now.mono-s.looks.probe > mono(f.pauseOf(s, s.row.Rest.Level)) {
		s.looks.probe = 0 // whoever took it opened no run
	}
	f.place(s, now)
}

// pauseOf is how long the pause of a level is: the first is the shortest, each further one twice as long.
func (f *fleet) pauseOf(s *source, level int) time.Duration {
	pause := s.adapter.PauseFor.Min
	for ; level > 1 && pause < s.adapter.PauseFor.Max; level-- {
		pause *= 2
	}
	return min(pause, s.adapter.PauseFor.Max)
}

// rest pauses a source by itself.
func (f *fleet) rest(s *source, level int, why, last string) {
	now := f.clock.now()
	pause := f.pauseOf(s, level)
	if last = presentable(last); last != "" {
		why += "; the last: " + last
	}
	rest := sql.Rest{Level: level, Since: now.wall}
	s.looks = looks{}
	f.log(s.code, levelWarning, fmt.Sprintf("paused by itself for %s: %s", pause, why))
	f.logger.Warn("a source rests", "source", s.code, "for", pause, "times", level, "reason", why)
	f.metrics.Rested(s.code)
	f.alert(configs.AlertRest, s.code, fmt.Sprintf("it is paused for %s: %s", pause, why))
	f.setPause(s, now.wall.Add(pause), why, restedBy, rest)
}

// wake ends the rest of a source.
func (f *fleet) wake(s *source) {
	s.looks = looks{}
	f.setPause(s, time.Time{}, "", "", sql.Rest{Since: f.clock.now().wall})
}

// setPause writes a pause, or its end.
func (f *fleet) setPause(s *source, until time.Time, reason, by string, rest sql.Rest) {
	c := sql.SourceChange{Source: s.code}
	f.ownPause(s, &c, until, reason, by)
	f.ownRest(s, &c, rest)
	f.change(s, c)
	f.apply(s, f.clock.now())
}

// ownPause puts a pause, or its end, into a change and on top of the row.
func (f *fleet) ownPause(s *source, c *sql.SourceChange, until time.Time, reason, by string) {
	until = until.Truncate(time.Microsecond) // as the database keeps it
	s.own.pause, s.own.until, s.own.reason, s.own.by = true, until, reason, by
	c.PausedUntil, c.PauseReason, c.PausedBy = sql.Some(until), orNull(reason), orNull(by)
	if until.IsZero() {
		c.PausedUntil = sql.Null[time.Time]()
	}
}

// ownRest puts where a source stands into a change and on top of the row. A source that never rests has nothing to be kept.
func (f *fleet) ownRest(s *source, c *sql.SourceChange, rest sql.Rest) {
	if s.adapter.MaxFailures == 0 && s.row.Rest == (sql.Rest{}) {
		return
	}
	rest.Since = rest.Since.Truncate(time.Microsecond)
	s.own.rest = &rest
	c.Rest = sql.Some(rest)
}

// noteForeignPause ends the rest of a source whose pause somebody else has changed.
func (f *fleet) noteForeignPause(s *source) {
	if !s.rests() || s.row.OwnsPause() {
		return
	}
	f.logger.Info("somebody else changed the pause of a source that rested", "source", s.code, "paused_until", s.row.PausedUntil)
	f.alertOver(configs.AlertRest, s.code)
	s.looks = looks{}
	c := sql.SourceChange{Source: s.code}
	f.ownRest(s, &c, sql.Rest{Since: f.clock.now().wall})
	f.change(s, c)
	s.own.apply(&s.row)
}

// restProblem says why a source that rests gets one tick only.
func (s *source) restProblem(r *status.Record) {
	switch {
	case !s.rests() || r.Paused || r.Problem != "":
	case s.looks.open: // and if it is never closed, it rests for ever
		r.Problem = "resting until the open run of its probe ends: " + s.row.PauseReason
	default:
		r.Problem = "resting, with one tick as a probe: " + s.row.PauseReason
	}
}
