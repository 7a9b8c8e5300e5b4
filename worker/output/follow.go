package output

import (
	"context"
	"iter"
	"sync"
)

const (
	followBytes  = 256 << 10 // what may wait for one follower
	followPerRow = 64        // what a waiting line costs beside its text
)

// follower is one reader of a source's lines. It never holds up the crawler: what it does not take in time is lost and counted.
type follower struct {
	wake chan struct{} // holds one token when lines wait

	mu    sync.Mutex
	lines []Line
	bytes int
	lost  uint64 // since the last line in lines
}

// offer hands over a line, whose text must not change any more. False says that it was lost.
func (f *follower) offer(l Line) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes >= followBytes {
		f.lost++
		return false
	}
	l.Lost, f.lost = f.lost, 0
	f.lines = append(f.lines, l)
	f.bytes += len(l.Text) + followPerRow
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return true
}

func (f *follower) takeAll() []Line {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines, f.bytes = nil, 0
	return lines
}

// Follow yields the last lines that are kept, at most last of them, and then every line as it comes, of this crawler and of those that
// follow it, until ctx ends, the loop is left or the Output is closed. A follower that is too slow loses lines: Lost of
// the next one says how many. Each loop over the result is a follower of its own.
func (o *Output) Follow(ctx context.Context, last int) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		f, lines := o.join(last)
		defer o.leave(f)
		for {
			for _, l := range lines {
				if ctx.Err() != nil || !yield(l) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-o.closed:
				if lines = f.takeAll(); len(lines) == 0 {
					return
				}
			case <-f.wake:
				lines = f.takeAll()
			}
		}
	}
}

// join registers a follower and reads the kept lines in the same moment, so that none is missing in between and none comes twice.
func (o *Output) join(last int) (*follower, []Line) {
	f := &follower{wake: make(chan struct{}, 1)}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.followers = append(o.followers, f)
	return f, o.ring.last(last, 0)
}

func (o *Output) leave(f *follower) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.followers {
		if other == f {
			o.followers = append(o.followers[:i:i], o.followers[i+1:]...)
			return
		}
	}
}
