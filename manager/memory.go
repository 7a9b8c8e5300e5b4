package manager

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	// bigStart is how many crawlers have to start before memory is given back.
	bigStart  = 200
	calmAfter = 5 * time.Second
)

// calm tells when many crawlers have started and no more do.
type calm struct {
	last, served int64 // starts at the last look, and when it was calm last
}

func (c *calm) look(starts int64) bool {
	quiet := starts == c.last
	c.last = starts
	if !quiet || starts-c.served < bigStart {
		return false
	}
	c.served = starts
	return true
}

// memoryLoop gives back to the system what a big start needed and nothing does any more: the runtime itself keeps it for a while,
// in the hope that it is needed again soon.
func (m *Manager) memoryLoop(ctx context.Context) error {
	ticker := time.NewTicker(calmAfter)
	defer ticker.Stop()
	var c calm
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if c.look(m.fleet.starts.Load()) {
				debug.FreeOSMemory()
			}
		}
	}
}
