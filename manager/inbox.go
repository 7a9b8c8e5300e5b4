package manager

import (
	"sync"
	"time"
)

// inbox carries what others have to say to the goroutine of the fleet. Putting never waits: workers, the channel of
// commands and the writer of lists must not be held up by a fleet that is busy.
type inbox struct {
	mu    sync.Mutex
	items []func()
	wake  chan struct{}

	batch []func() // older than items; owned by who runs
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put hands over a function that is to be called by the fleet's goroutine.
func (b *inbox) put(f func()) {
	b.mu.Lock()
	b.items = append(b.items, f)
	b.mu.Unlock()
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// batchLimit is how long the fleet calls what waits before it turns to what is due.
const batchLimit = 100 * time.Millisecond

// run calls what waits, for a while, and tells whether there was something. What is left, and what comes meanwhile, wakes the
// loop again: a flood must not keep the fleet from its turn.
func (b *inbox) run() (some bool) {
	if len(b.batch) == 0 {
		b.mu.Lock()
		b.batch, b.items = b.items, nil
		b.mu.Unlock()
	}
	some = len(b.batch) > 0
	for began := time.Now(); len(b.batch) > 0; {
		f := b.batch[0]
		b.batch[0], b.batch = nil, b.batch[1:]
		if f(); time.Since(began) >= batchLimit {
			b.signal()
			break
		}
	}
	return some
}

// runAll calls until nothing waits. It is for the end, when hardly anybody puts any more.
func (b *inbox) runAll() (some bool) {
	for b.run() {
		some = true
	}
	return some
}
