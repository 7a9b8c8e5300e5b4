package manager

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/worker"
)

// rollout is a restart of many, some at a time.
type rollout struct {
	order   *order
	queue   []*source
	down    int
	most    int
	stagger time.Duration
	next    time.Time
	timer   bool // one is pending
	tried   int  // restarts of which it is known whether the new crawler got well
	failed  int
	over    string // why it ended early
}

// badStart is how many restarts, from the first on, may fail before a rolling restart gives up.
const badStart = 3

func (f *fleet) roll(o *order, sources []*source) {
	r := &rollout{order: o, queue: slices.Clone(sources), most: len(sources), stagger: o.command.Stagger}
	if o.command.Rolling {
		r.most = max(1, o.command.MaxDown)
	}
	f.rollouts[r] = struct{}{}
	f.advance(r)
}

// advance restarts as many as may be down now.
func (f *fleet) advance(r *rollout) {
	now := time.Now()
	for len(r.queue) > 0 && r.down < r.most && r.over == "" {
		if now.Before(r.next) {
			f.advanceLater(r, r.next.Sub(now))
			return
		}
		s := r.queue[0]
		r.queue = r.queue[1:]
		if err := f.mayRun(s); err != nil {
			r.order.done(s.code, resultOfWish(err))
			continue
		}
		r.down++
		r.next = now.Add(r.stagger)
		f.restart(s, r.order.by(), func(err error) {
			if err == nil && r.order.command.Rolling {
				f.tryOut(s, func(err error) { f.rolled(r, s, err) })
				return
			}
			f.rolled(r, s, err)
		})
	}
	if r.over != "" {
		f.answerRest(r, r.over)
	}
	if len(r.queue) == 0 {
		delete(f.rollouts, r)
	}
}

func (f *fleet) advanceLater(r *rollout, in time.Duration) {
	if r.timer {
		return
	}
	r.timer = true
	time.AfterFunc(in, func() {
		f.inbox.put(func() {
			r.timer = false
			if !f.draining {
				f.advance(r)
			}
		})
	})
}

func (f *fleet) answerRest(r *rollout, why string) {
	for _, s := range r.queue {
		r.order.done(s.code, control.Result{Error: why})
	}
	r.queue = nil
}

// answerCutOff answers what the end of the manager cut off.
func (f *fleet) answerCutOff() {
	f.refuseEarly(0, worker.ErrShutdown)
	for r := range f.rollouts {
		f.answerRest(r, worker.ErrShutdown.Error())
	}
}

func (f *fleet) rolled(r *rollout, s *source, err error) {
	r.down--
	switch {
	case errors.Is(err, worker.ErrSuperseded), errors.Is(err, worker.ErrUnwanted), errors.Is(err, worker.ErrShutdown):
		// which says nothing of the new crawler
	case err != nil:
		r.tried, r.failed = r.tried+1, r.failed+1
	default:
		r.tried++
	}
	if r.order.command.Rolling && r.failed >= badStart && r.failed == r.tried && r.over == "" && len(r.queue) > 0 {
		r.over = fmt.Sprintf("not restarted: the first %d did not get well, the last one as %v", r.failed, err)
		f.logger.Error("a rolling restart ends early", "failed", r.failed, "left", len(r.queue), "source", s.code, "error", err)
	}
	r.order.done(s.code, resultOfWish(err))
	f.advance(r)
}

// longestTrial bounds the trial where backoff.min is long.
const longestTrial = 10 * time.Second

// tryOut calls done once it is known whether the new crawler of a source is well: it runs, no check says otherwise, and it
// has not ended within backoff.min. A bad version that ends soon after its start must not pass for a good one.
func (f *fleet) tryOut(s *source, done func(error)) {
	s.trials = append(s.trials, done)
	f.judgeTrials(s)
}

// judgeTrials is called whenever there may be a judgement.
func (f *fleet) judgeTrials(s *source) {
	if len(s.trials) == 0 {
		return
	}
	wait, err := s.judgement(time.Now())
	if wait > 0 {
		time.AfterFunc(wait, func() { f.inbox.put(func() { f.judgeTrials(s) }) })
	}
	if wait != 0 {
		return
	}
	trials := s.trials
	s.trials = nil
	for _, done := range trials {
		done(err)
	}
}

// judgement says whether the crawler is well: nil, or why not; or how long that has to wait: negative until something
// happens to it.
func (s *source) judgement(now time.Time) (wait time.Duration, err error) {
	snap := s.worker.Snapshot()
	switch snap.Phase {
	case worker.Running:
		return max(0, snap.StartedAt.Add(min(s.adapter.Backoff.Min, longestTrial)).Sub(now)), nil
	case worker.Unhealthy, worker.Stalled:
		return 0, fmt.Errorf("its crawler is %s: %s", snap.Phase, snap.Unwell)
	case worker.Backoff, worker.Cooling, worker.Stopped:
		return 0, notWell(snap.LastExit)
	}
	return -1, nil // it ends or starts, and what comes of it is told
}

// notWell says why a crawler that was tried out is not there any more.
func notWell(e *worker.Exit) error {
	switch {
	case e == nil || e.Cause == worker.StoppedBy || e.Cause == worker.Restarted:
		return worker.ErrSuperseded
	case e.Cause == worker.Shutdown:
		return worker.ErrShutdown
	case e.Cause == worker.StartFailed:
		return errors.New(e.Error)
	}
	text := fmt.Sprintf("its crawler %s (%s) before it was well", did[e.Cause], e.Exit)
	if e.Why != "" {
		text += ": " + e.Why
	}
	return errors.New(text)
}
