package manager

import (
	"maps"
	"slices"
	"time"
)

// stages is the order of a shutdown, the reverse of the order of starts (`after` of an adapter): crawlers that others come
// after are asked to end once those others are gone. All share one deadline, the longest stop_timeout. So that a stage that
// takes long leaves the others their time, each is asked early enough for its stop_timeout, or for an equal share of the
// deadline where that is less, and all that come below it for theirs. It belongs to the fleet's goroutine.
type stages struct {
	began    time.Time
	deadline time.Duration
	parts    []*part
	of       map[*source]*part
}

// part is all crawlers of one adapter.
type part struct {
	sources []*source
	left    int           // whose worker has not ended
	stop    time.Duration // stop_timeout
	above   []*part       // of the adapters that come after this one
	below   []*part       // of those that this one comes after
	latest  time.Duration // when it is asked to end, after the beginning
	asked   bool
}

// shutDown stops all crawlers and returns when all workers have ended.
func (f *fleet) shutDown() {
	f.inbox.run() // why it ends may be among it
	f.draining, f.ending = true, true
	if f.stages = f.planStages(); f.stages == nil {
		f.stopAll()
	} else {
		f.stages.begin()
	}
	done := make(chan struct{})
	go func() { f.workers.Wait(); close(done) }()
	kill := f.kill
	for {
		next := f.nextStage()
		select {
		case <-f.inbox.wake:
			f.inbox.run()
			f.beat()
		case <-next:
		case <-kill:
			kill = nil
			f.stopAll()
		case <-done:
			f.inbox.runAll() // the last answers
			return
		}
	}
}

// hurryUp has all crawlers stopped at once, now or when the end comes: something is broken, and where that is the manager's
// key no crawler of ours may live on for the sake of an order.
func (f *fleet) hurryUp() {
	f.hurry = true
	if f.ending {
		f.stopAll()
	}
}

// nextStage asks those to end whose time has come, and returns when to look again; nil is never.
func (f *fleet) nextStage() <-chan time.Time {
	if f.stages == nil {
		return nil
	}
	wait, late := f.stages.turn(time.Now())
	if late {
		f.killAll()
		f.stages = nil
		return nil
	}
	return time.After(wait)
}

// planStages returns nil where all are to be stopped at once.
func (f *fleet) planStages() *stages {
	if f.hurry {
		return nil
	}
	p := &stages{began: time.Now(), deadline: f.conf.LongestStop(), of: map[*source]*part{}}
	parts := map[string]*part{}
	for _, s := range f.sources {
		name := f.conf.AdapterName(s.row.Adapter)
		if parts[name] == nil {
			parts[name] = &part{stop: f.conf.Adapters[name].StopTimeout}
		}
		p.of[s] = parts[name]
		p.of[s].sources, p.of[s].left = append(p.of[s].sources, s), p.of[s].left+1
	}
	ordered := false
	for name, above := range parts {
		for _, other := range f.conf.Adapters[name].After {
			if below := parts[other]; below != nil {
				above.below, below.above = append(above.below, below), append(below.above, above)
				ordered = true
			}
		}
	}
	if !ordered {
		return nil
	}
	p.parts = slices.Collect(maps.Values(parts))
	p.share()
	return p
}

// share says when each part is asked to end at the latest.
func (p *stages) share() {
	longest := 1
	for _, q := range p.parts {
		longest = max(longest, q.depth())
	}
	for _, q := range p.parts {
		q.latest = p.deadline - q.needs(p.deadline/time.Duration(longest))
	}
}

// depth is the length of the longest chain from here down.
func (q *part) depth() int {
	deepest := 0
	for _, other := range q.below {
		deepest = max(deepest, other.depth())
	}
	return deepest + 1
}

// needs is the time for it and all below it, where each gets at most a share.
func (q *part) needs(share time.Duration) time.Duration {
	var longest time.Duration
	for _, other := range q.below {
		longest = max(longest, other.needs(share))
	}
	return longest + min(q.stop, share)
}

// begin tells those to end at once that have no crawler that is up: nothing starts any more.
func (p *stages) begin() {
	for s := range p.of {
		if !s.worker.Snapshot().Phase.Up() {
			s.end(nil)
		}
	}
}

// turn asks all to end whose time has come, and returns how long until the next one's has; late: the deadline is over.
func (p *stages) turn(now time.Time) (wait time.Duration, late bool) {
	gone := now.Sub(p.began)
	wait = p.deadline - gone
	for _, q := range p.parts {
		switch {
		case q.asked:
		case gone >= q.latest || !slices.ContainsFunc(q.above, func(other *part) bool { return other.left > 0 }):
			q.asked = true
			for _, s := range q.sources {
				s.end(nil)
			}
		default:
			wait = min(wait, q.latest-gone)
		}
	}
	return wait, wait <= 0
}

// over is told that the worker of a source has ended.
func (p *stages) over(s *source) {
	if p != nil && p.of[s] != nil {
		p.of[s].left--
	}
}

// leave is told that the crawler of a source ended by itself, or is being stopped: it is not started again.
func (p *stages) leave(s *source) {
	if p != nil && p.of[s] != nil {
		s.end(nil)
	}
}
