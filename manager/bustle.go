package manager

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// manyMoves is how many changes of phase make the fleet busy.
	manyMoves = 500
	calmAfter = 5 * time.Second
)

// bustle knows whether many crawlers start or end, or it is calm. It is busy at first.
type bustle struct {
	tell  func(busy bool) // told of each change, by whoever makes it
	moves atomic.Int64    // since the last look
	mu    sync.Mutex      // held while calm changes and is told
	calm  atomic.Bool

	rhythm rhythm
}

// moved counts a change of phase. Any goroutine.
func (b *bustle) moved() {
	if b.moves.Add(1) == manyMoves {
		b.become(true)
	}
}

// become tells of a change, one after the other.
func (b *bustle) become(busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calm.CompareAndSwap(busy, !busy) {
		b.tell(busy)
	}
}

// crowded tells whether many crawlers have started or ended since the last look. Any goroutine.
func (b *bustle) crowded() bool { return b.moves.Load() >= manyMoves }

// look is called each calmAfter.
func (b *bustle) look() {
	if b.moves.Swap(0) < manyMoves {
		b.become(false)
	}
}

// run looks until the context ends.
func (b *bustle) run(ctx context.Context) error {
	timer := time.NewTimer(calmAfter)
	defer timer.Stop()
	for {
		timer.Reset(b.rhythm.next(calmAfter))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			b.look()
		}
	}
}
