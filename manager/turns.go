package manager

import (
	"context"
	"fmt"

	"crawlkeeper/worker"
)

// turns keeps the order in which crawlers start (`after` of an adapter). A source is settled once its crawler was up for
// the first time under this manager, or its first start came to nothing: one that is broken must not hold up others for
// ever. Who starts, for whatever reason, waits while sources of an adapter that it comes after are wanted and not settled.
// It belongs to the fleet's goroutine.
type turns struct {
	open    map[string]int            // by adapter: sources that are wanted and not settled
	waiting map[*source]chan struct{} // closed when it may be their turn
}

// inTurn waits, in a goroutine of a worker, until a source may start.
func (f *fleet) inTurn(ctx context.Context, s *source) error {
	if !s.ordered.Load() {
		return nil
	}
	turn, asked := query(ctx, f, func() chan struct{} { return f.turnOf(s) })
	if asked && turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done(): // after the question, whose answer may be on its way
		f.inbox.put(func() { delete(f.turns.waiting, s) })
		return ctx.Err()
	}
}

// turnOf returns what is closed when a source may start; nil where it may start now.
func (f *fleet) turnOf(s *source) chan struct{} {
	if f.comesAfter(s) == "" {
		return nil
	}
	turn := make(chan struct{})
	f.turns.waiting[s] = turn
	return turn
}

// comesAfter names the first adapter that a source has to wait for, "" where there is none.
func (f *fleet) comesAfter(s *source) string {
	for _, name := range s.adapter.After {
		if f.turns.open[name] > 0 {
			return name
		}
	}
	return ""
}

// takeTurns counts a source as open, or no longer, and lets those go on that waited for the last one of its adapter.
func (f *fleet) takeTurns(s *source) {
	name := ""
	if up, _ := s.wanted(f.conf.Manager.Disabled); up && !s.settled {
		name = f.conf.AdapterName(s.row.Adapter)
	}
	if name == s.openAs {
		return
	}
	before := s.openAs
	s.openAs = name
	if name != "" {
		f.turns.open[name]++
	}
	if before == "" {
		return
	}
	if f.turns.open[before]--; f.turns.open[before] == 0 {
		delete(f.turns.open, before)
		f.nextTurn()
	}
}

// nextTurn lets those go on that have to wait no longer.
func (f *fleet) nextTurn() {
	for s, turn := range f.turns.waiting {
		if f.comesAfter(s) == "" {
			f.letGo(s, turn)
		}
	}
}

// jumpQueue lets a source go whose restart somebody asks for: they do not want to wait for others.
func (f *fleet) jumpQueue(s *source) {
	if turn := f.turns.waiting[s]; turn != nil {
		f.letGo(s, turn)
	}
}

func (f *fleet) letGo(s *source, turn chan struct{}) {
	delete(f.turns.waiting, s)
	close(turn)
}

// settleStart notes that the first start of a source is over, whatever came of it.
func (f *fleet) settleStart(s *source) {
	s.settled = true
	f.takeTurns(s)
}

// turnProblem says what a source waits for.
func (f *fleet) turnProblem(s *source, p worker.Phase) string {
	if f.turns.waiting[s] == nil || p != worker.Pending && p != worker.Starting {
		return ""
	}
	name := f.comesAfter(s)
	if name == "" {
		return ""
	}
	return fmt.Sprintf("waits for the crawlers of adapter %s: %d not up yet", name, f.turns.open[name])
}
