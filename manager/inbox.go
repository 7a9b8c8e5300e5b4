package manager

import "sync"

// inbox carries what others have to say to the goroutine of the fleet. Putting never waits: workers, the channel of
// commands and the writer of lists must not be held up by a fleet that is busy.
type inbox struct {
	mu    sync.Mutex
	items []func()
	wake  chan struct{}
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put hands over a function that is to be called by the fleet's goroutine.
func (b *inbox) put(f func()) {
	b.mu.Lock()
	b.items = append(b.items, f)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run calls what waits until nothing does, and tells whether there was something.
func (b *inbox) run() (some bool) {
	for {
		b.mu.Lock()
		items := b.items
		b.items = nil
		b.mu.Unlock()
		if len(items) == 0 {
			return some
		}
		some = true
		for _, f := range items {
			f()
		}
	}
}
