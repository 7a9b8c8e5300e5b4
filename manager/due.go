package manager

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/worker"
)

// historyLimit bounds the look at the history before a tick: a slow database must not hold up ticks.
const historyLimit = time.Second

// Redis that refuses or does not answer is tried again after these pauses.
const (
	holdMin = 100 * time.Millisecond
	holdMax = 5 * time.Second
)

// A list that refuses its tick is tried again after these pauses.
const (
	retryMin = time.Second
	retryMax = time.Minute
)

// lookAt is when a source is to be looked at next, noTime where only an event can make that worthwhile: a start, the end
// of a restart, a change of its row.
func (f *fleet) lookAt(s *source, now moment) mono {
	switch {
	case f.draining || s.gone || !s.up || s.asked > 0 || s.pushing || !s.row.Enabled || s.noTicks != "":
		return noTime
	case s.row.PausedUntil.After(now.wall):
		return now.until(s.row.PausedUntil)
	case s.rests() && !s.mayProbe():
		return noTime
	}
	return max(s.goesOut(now), s.retryAt, f.holdTill)
}

func (f *fleet) place(s *source, now moment) {
	f.notePause(s, now)
	if s.heapAt = f.lookAt(s, now); s.heapAt == noTime {
		f.heap.drop(s)
	} else {
		f.heap.place(s)
	}
}

// notePause makes a source due whose pause has ended.
func (f *fleet) notePause(s *source, now moment) {
	was := s.paused
	s.paused = s.row.PausedUntil.After(now.wall)
	if !was || s.paused {
		return
	}
	f.lookSoon(s)
	if s.noTicks == "" {
		s.anchor, s.due = now, s.dueAtOnce(now)
	}
}

// turn sends what is due, all together.
func (f *fleet) turn(now moment) {
	if len(f.heap) == 0 || f.late() {
		return
	}
	var due, past []*source
	for until := f.dueUntil(now.mono); len(f.heap) > 0 && f.heap[0].heapAt <= until; {
		s := heap.Pop(&f.heap).(*source)
		f.notePause(s, now)
		if s.heapAt = f.lookAt(s, now); s.heapAt == noTime {
			continue
		}
		if s.heapAt > now.mono {
			f.heap.place(s)
			continue
		}
		if s.missed(now) {
			f.metrics.TickSkipped(s.code, "missed")
			s.due = s.nextDue(now)
			f.place(s, now)
			continue
		}
		s.pushing = true
		if s.row.History.Open() {
			past = append(past, s)
		} else {
			due = append(due, s)
		}
	}
	f.push(due)
	f.pushWithHistory(past)
}

// missedAfter is how late a due time counts as missed.
const missedAfter = time.Minute

// missed tells whether a due time is to be dropped because it passed long ago. The start of a crawler is not missed.
func (s *source) missed(now moment) bool {
	start := !s.due.onWall && s.due.at == s.anchor.mono
	return s.adapter.Misfire == configs.MisfireSkip && !start && time.Duration(now.mono-s.goesOut(now)) > missedAfter
}

// pushWithHistory pushes once the segments of these sources were read anew.
func (f *fleet) pushWithHistory(past []*source) {
	if len(past) > 0 {
		f.readHistory(past, func() { f.push(past) })
	}
}

// readHistory reads the segments of sources anew, in one query, and calls then in the fleet's goroutine. While Postgres
// is away the sources have what was last read.
func (f *fleet) readHistory(past []*source, then func()) {
	codes := make([]string, len(past))
	for i, s := range past {
		codes[i] = s.code
	}
	ctx := f.workCtx
	f.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, historyLimit)
		defer cancel()
		fresh, err := f.history.History(ctx, codes)
		f.inbox.put(func() {
			for _, s := range past {
				if h, ok := fresh[s.code]; ok && err == nil {
					s.base.History, s.row.History = h, h
				}
			}
			then()
		})
	})
}

// sent is what was true of a source when its tick was sent.
type sent struct {
	s       *source
	due     time.Time // its name
	came    mono      // when it had come, without the jitter
	trigger string
	starts  int
}

// push sends the ticks of sources that are marked as pushing, less those for which that has become wrong meanwhile.
func (f *fleet) push(sources []*source) {
	var pushes []push
	var out []sent
	now := f.clock.now()
	for _, s := range sources {
		s.pushing = false
		if at := f.lookAt(s, now); at == noTime || at > now.mono {
			f.place(s, now)
			continue
		}
		s.pushing = true
		out = append(out, sent{s, s.due.wall, s.due.comes(now), s.trigger, s.starts})
		pushes = append(pushes, push{s.code, s.due.wall, s.rule(), f.tick(s, s.trigger, s.due.wall).encode(s.adapter.Tick)})
	}
	if len(pushes) == 0 {
		return
	}
	f.lists.Push(pushes, func(results []pushResult) {
		at := f.clock.now()
		f.inbox.put(func() {
			for i, r := range results {
				f.pushDone(out[i], r, at)
			}
		})
	})
}

func (f *fleet) tick(s *source, trigger string, due time.Time) tick {
	return tick{
		code: s.code, trigger: trigger, due: due, backfill: s.row.BackfillHours, history: s.row.History,
		payload: s.row.Payload, url: s.adapter.URL,
	}
}

func (f *fleet) pushDone(p sent, r pushResult, at moment) {
	s := p.s
	s.pushing = false
	switch {
	case errors.Is(r.err, errAway):
		if f.holdTill <= at.mono { // one step for all that failed together
			f.hold = min(max(holdMin, 2*f.hold), holdMax)
			f.holdTill = at.mono + mono(f.hold)
		}
	case r.err != nil:
		s.retry = min(max(retryMin, 2*s.retry), retryMax)
		s.retryAt = at.mono + mono(s.retry)
		f.metrics.TickSkipped(s.code, "error")
		if s.said != r.err.Error() {
			s.said = r.err.Error()
			f.logger.Error("a tick could not be pushed", "source", s.code, "key", f.conf.Redis.StartURLs(s.code), "error", r.err)
		}
	default:
		if r.result != waiting { // a server that is full or read-only still answers that one waits
			f.hold, f.holdTill = 0, 0
		}
		s.retry, s.retryAt, s.said = 0, 0, ""
		f.settle(p, r.result, at)
	}
	f.place(s, at)
}

// settle counts a due time as done: its tick went out, or was dropped as one still waits.
func (f *fleet) settle(p sent, result string, at moment) {
	s := p.s
	if s.rests() && s.starts == p.starts { // a crawler that was started since finds no tick of before
		s.looks.probe = at.mono
	}
	f.lookSoon(s)
	s.lastDue = latest(s.lastDue, p.due)
	if s.waits = result == waiting; s.waits {
		f.metrics.TickSkipped(s.code, waiting)
		if !s.toldWaits {
			s.toldWaits = true
			f.logger.Warn("a tick is dropped: the last one still waits, the crawler is busy or stuck", "source", s.code)
		}
	} else {
		s.toldWaits = false
		s.sentTrigger = p.trigger
		if result == pushed {
			f.tickPushed(s)
		}
		f.metrics.TickPushed(s.code, p.trigger, time.Duration(at.mono-p.came))
		if s.trigger == p.trigger && s.starts == p.starts {
			s.trigger = triggerSchedule
		}
	}
	if s.due.wall.Equal(p.due) || s.due.onWall && !s.due.wall.After(s.lastDue) {
		s.due = s.nextDue(at)
	}
}

// started is told that a new crawler of a source runs.
func (f *fleet) started(s *source, at moment) {
	f.settleStart(s)
	s.up, s.waits, s.toldWaits = true, false, false
	s.starts++
	s.looks = looks{}
	f.lookSoon(s)
	s.retry, s.retryAt = 0, 0
	defer f.judgeTrials(s)
	if s.trigger == triggerSchedule {
		s.trigger = triggerStartup
	}
	s.anchor = at
	s.rss, s.cpu = 0, 0
	redo := s.redo
	s.redo = false
	switch {
	case redo: // a tick that the cleaning deleted comes again
	case !s.waitsAtStart():
		s.due = s.dueAtOnce(at)
	case !s.plan.IsCron() && s.noTicks == "":
		s.due = s.nextDue(at)
	}
	f.place(s, f.clock.now())
}

// atRest is told that a source has no process and none is being started.
func (f *fleet) atRest(s *source) {
	f.settleStart(s)
	f.judgeTrials(s)
	f.forget(s)
}

// ended is told that it does not run any more.
func (f *fleet) ended(s *source) {
	s.up = false
	f.stages.leave(s)
	f.lookSoon(s)
	f.place(s, f.clock.now())
}

// cleaned is told that a cleaning deleted a tick: its due time does not count as pushed.
func (f *fleet) cleaned(s *source, due time.Time) {
	if s.sentTrigger == triggerRestart && s.trigger != triggerRestart {
		s.trigger = triggerRestart
	}
	if s.waitsAtStart() && (due.Before(s.due.wall) || !s.plan.IsCron()) {
		now := f.clock.now()
		s.due, s.lastDue, s.redo = s.named(due, now), due.Add(-dueStep), !s.up
		if !s.due.onWall { // it had come, whatever the clock shows since
			s.due.at = min(s.due.at, now.mono)
		}
		f.place(s, now)
	}
}

// replan reads a source's schedule anew where it changed, and says when it is due from now on.
func (f *fleet) replan(s *source, now moment) {
	before := s.noTicks
	if !s.replan() {
		return
	}
	if s.noTicks != "" && s.noTicks != before {
		f.logger.Warn("a source gets no ticks", "source", s.code, "reason", s.noTicks)
		f.log(s.code, levelWarning, "no ticks: "+s.noTicks)
	}
	switch first := s.anchor.wall.IsZero(); {
	case first && s.plan.IsCron() && !s.lastDue.IsZero():
		s.due = s.nextDue(moment{now.mono, s.lastDue}) // past where its time came while no manager was there
	case first && !s.plan.IsCron():
		s.due = s.dueAtOnce(now)
	case s.noTicks == "":
		s.due = s.nextDue(now)
	}
}

// manual pushes a tick now, whatever schedule, pause and enabled say.
func (f *fleet) manual(s *source, done func(result string, err error)) {
	if err := f.mayTick(s); err != nil {
		done("", err)
		return
	}
	if !s.row.History.Open() {
		f.pushManual(s, done)
		return
	}
	f.readHistory([]*source{s}, func() {
		if err := f.mayTick(s); err != nil { // by now
			done("", err)
			return
		}
		f.pushManual(s, done)
	})
}

func (f *fleet) mayTick(s *source) error {
	switch {
	case f.draining:
		return worker.ErrShutdown
	case s.adapter.Tick == configs.TickScrapyRedis && tickURL(s.row.Payload, s.adapter.URL) == "":
		return errors.New(noURL)
	case s.asked > 0:
		return errors.New("its crawler is being restarted: ask again when it runs")
	case s.gone || !s.up:
		return errors.New("its crawler does not run")
	}
	return nil
}

func (f *fleet) pushManual(s *source, done func(result string, err error)) {
	now := f.clock.now()
	p := push{s.code, now.wall, ruleNow, f.tick(s, triggerManual, now.wall).encode(s.adapter.Tick)}
	tasks := f.tasks
	tasks.Add(1)
	f.lists.Push([]push{p}, func(results []pushResult) {
		defer tasks.Done()
		f.inbox.put(func() {
			if results[0].result == pushed {
				f.tickPushed(s)
				f.metrics.TickPushed(s.code, triggerManual, time.Duration(f.clock.now().mono-now.mono))
				f.lookSoon(s)
			}
			done(results[0].result, results[0].err)
		})
	})
}
