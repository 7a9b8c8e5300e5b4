package worker

import (
	"context"
	"time"
)

// lookLimit bounds a look at a tree that is about to be ended: what is stuck may hold up who looks.
const lookLimit = 2 * time.Second

// evidence is what a process that is about to be ended does at this moment, and what it printed until now: the end itself
// prints more, and leaves nothing to look at.
func (w *Worker) evidence(ctx context.Context, p Process) []string {
	var lines []string
	if d, ok := p.(drained); ok {
		for _, line := range d.stream.Last(evidenceLines) {
			lines = append(lines, "| "+string(line.Text))
		}
	}
	if w.n.Look == nil {
		return lines
	}
	seen := make(chan []string, 1) // nobody takes it where it comes too late
	go func() { seen <- w.n.Look(p.Pid()) }()
	limit := time.NewTimer(lookLimit)
	defer limit.Stop()
	select {
	case more := <-seen:
		return append(lines, more...)
	case <-limit.C:
		return append(lines, "it could not be looked at in time")
	case <-p.Exited():
	case <-ctx.Done():
	}
	return lines
}
