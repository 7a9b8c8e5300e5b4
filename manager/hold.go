package manager

import (
	"context"
	"sync"
	"time"

	"crawlkeeper/worker"
)

// holds keep sources from starting for a moment, while something is removed that their crawlers might want. A worker
// publishes that it starts before it asks here; who holds a source looks at its worker after that. So one of the two sees
// the other.
type holds struct {
	mu   sync.Mutex
	held map[string]chan struct{} // guarded by mu; closed when it is let go
}

// wait returns when nobody holds the source, or with the context's error.
func (h *holds) wait(ctx context.Context, code string) error {
	for {
		h.mu.Lock()
		free := h.held[code]
		h.mu.Unlock()
		if free == nil {
			return ctx.Err()
		}
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take holds a source. The janitor alone does so, one at a time.
func (h *holds) take(code string) (release func()) {
	free := make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[string]chan struct{}{}
	}
	h.held[code] = free
	return func() {
		h.mu.Lock()
		delete(h.held, code)
		h.mu.Unlock()
		close(free)
	}
}

// hold keeps a source from starting until release is called. False where its crawler runs, starts, or is not swept yet.
func (m *Manager) hold(ctx context.Context, code string) (release func(), ok bool) {
	release = m.fleet.holds.take(code)
	rests, asked := query(ctx, m.fleet, func() bool {
		s := m.fleet.sources[code]
		return s == nil || s.hasNone()
	})
	if !asked || !rests {
		release()
		return nil, false
	}
	return release, true
}

// hasNone tells whether nothing of its crawler is there, and the next start has to ask whether the source is held.
func (s *source) hasNone() bool {
	switch s.worker.Snapshot().Phase {
	case worker.Stopped, worker.Backoff, worker.Cooling:
		return true
	}
	return false
}

// here notes that a source exists, and vanish that it was deleted. The janitor writes it down.
func (f *fleet) here(code string) {
	delete(f.vanished, code)
	f.returned[code] = true
	f.census()
}

func (f *fleet) vanish(code string) {
	delete(f.returned, code)
	f.vanished[code] = time.Now()
	f.census()
}
