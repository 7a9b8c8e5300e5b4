package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/status"
)

// demoStirrer makes things happen: in turns it kills a crawler and asks for a restart of one. run is called by one goroutine, the
// other methods by any.
type demoStirrer struct {
	world *demoWorld

	mu       sync.Mutex
	news     string          // guarded by mu: the last thing that happened
	restarts []time.Duration // guarded by mu: from each command to its reply
}

// stirDeadline bounds one restart.
const stirDeadline = 10 * time.Second

func (s *demoStirrer) run(ctx context.Context) {
	tick := time.NewTicker(s.world.stir)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sources := s.world.sources
		if turn%2 == 0 { // backwards, as the last one hangs: its run is open
			s.kill(ctx, sources[len(sources)-1-turn/2%len(sources)].code)
		} else {
			s.restart(ctx, sources[turn/2%len(sources)].code)
		}
	}
}

// kill ends a crawler from the outside, as the kernel does when memory is short.
func (s *demoStirrer) kill(ctx context.Context, code string) {
	records, err := status.Read(ctx, s.world.client, s.world.config.Redis.Status())
	if err != nil || records[code].Pid == 0 {
		return
	}
	pid := records[code].Pid
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err == nil {
		s.tell("%s (pid %d) was killed by the demo with SIGKILL", code, pid)
	}
}

func (s *demoStirrer) restart(ctx context.Context, code string) {
	ctx, cancel := context.WithTimeout(ctx, stirDeadline)
	defer cancel()
	keys := s.world.config.Redis
	sender := control.Sender{Client: s.world.client, Control: keys.Control(), Replies: keys.Replies(), ManagerKey: keys.ManagerKey()}
	began := time.Now()
	reply, err := sender.Send(ctx, control.Command{Action: "restart", Sources: []string{code}, By: "demo"})
	took := time.Since(began)
	if err != nil || !reply.OK {
		return
	}
	s.mu.Lock()
	s.restarts = append(s.restarts, took)
	s.mu.Unlock()
	s.tell("%s was restarted by a command of the demo: %.1f ms to the new process", code, milliseconds(took))
}

func (s *demoStirrer) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = time.Now().Format(time.TimeOnly) + " " + fmt.Sprintf(format, args...)
}

func (s *demoStirrer) lastNews() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

func (s *demoStirrer) restartTimes() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
