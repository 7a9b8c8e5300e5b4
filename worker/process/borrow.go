package process

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/worker/borrowed"
)

// claims are the ids of processes from before anything is made for them until all was given back, and until nothing that bears
// them waits for another process. An id is used once, so that what bears one that is not claimed any more is left over.
type claims struct {
	mu  sync.Mutex
	ids map[string]int // how often each was taken and not dropped; guarded by mu
}

func (c *claims) take(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[string]int{}
	}
	c.ids[id]++
}

func (c *claims) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids[id] > 1 {
		c.ids[id]--
		return
	}
	delete(c.ids, id)
}

// Claimed tells whether a process of this id is being started, lives, or is not swept yet. To be asked after what bears
// the id was found: then an answer of no stays true.
func (s *Spawner) Claimed(id string) bool {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return s.claims.ids[id] > 0
}

// termsFor completes what a process may register. Its number is not known yet.
func (s *Spawner) termsFor(spec *Spec, place borrowed.Place) *borrowed.Terms {
	t := *spec.Track
	t.Process = spec.ID
	t.Roots = append(slices.Clone(t.Roots), place.Temp())
	t.Parent = os.Getpid()
	t.ParentStart, _ = StartTime(t.Parent)
	return &t
}

// giveBack gives back all that was taken for a process, in reverse order, and returns what could not be.
func (p *Process) giveBack() []borrowed.Kept {
	s := p.spawner
	var kept []borrowed.Kept
	if p.terms != nil {
		kept = s.Return(context.Background(), p.place, p.terms)
	}
	if g := p.tree.cgroup; g != nil && !s.cgroups.drop(g) {
		kept = append(kept, borrowed.Kept{Entry: borrowed.Entry{Kind: borrowed.Cgroup, Name: g.dir}, Why: "it could not be removed"})
	}
	if p.place.Root != "" {
		if err := s.putBack(p.place, p.user); err != nil {
			kept = append(kept, borrowed.Kept{Entry: borrowed.Entry{Kind: borrowed.Temp, Name: p.place.Temp()}, Why: err.Error()})
		}
	}
	return kept
}

// Return gives back what a process of which nothing lives any more has registered, and returns what could not be.
func (s *Spawner) Return(ctx context.Context, place borrowed.Place, t *borrowed.Terms) []borrowed.Kept {
	ctx, cancel := context.WithTimeout(ctx, giftLimit)
	defer cancel()
	select {
	case s.gifts <- struct{}{}:
		defer func() { <-s.gifts }()
		return place.Return(ctx, t, s.keys)
	case <-ctx.Done():
		return []borrowed.Kept{{Entry: borrowed.Entry{Kind: borrowed.File, Name: place.List()}, Why: "others took all the time (a mount that hangs?)"}}
	}
}

// giftLimit bounds what giving back adds to the end of a process.
const giftLimit = 10 * time.Second

// RemoveTemp removes the directory for temporary files of a process of which nothing lives any more.
func (s *Spawner) RemoveTemp(place borrowed.Place) error { return s.removing(place.RemoveTemp) }

func (s *Spawner) removing(remove func(context.Context) error) error {
	done := make(chan error, 1)
	if s.files.do(context.Background(), func(ctx context.Context) { done <- remove(ctx) }) != nil {
		return errors.New("it could not be removed in time (a mount that hangs?)")
	}
	return <-done
}

// forsake removes what was made for a process that never ran.
func (s *Spawner) forsake(found program) {
	if found.place.Root == "" {
		return
	}
	err := s.RemoveTemp(found.place)
	if found.terms != nil && err == nil {
		s.files.try(func() { _ = found.place.Forget() })
	}
	if err != nil {
		s.logger.Warn("the temporary directory of a start that failed could not be removed", "dir", found.place.Temp(), "error", err)
	}
}

// OneOf tells why the caller is none of the tree that the terms speak of. That the environment says so is not enough:
// people copy environments.
func OneOf(t *borrowed.Terms) error {
	if t.Number != 0 {
		for _, l := range []limit{locksLimit, msgqueueLimit} {
			if n, ok := l.of(os.Getpid()); ok && n == t.Number && n != unix.RLIM_INFINITY {
				return nil
			}
		}
		return errStranger
	}
	for pid := os.Getppid(); pid > 0; {
		st, ok := readStat(pid)
		if !ok {
			break
		}
		if pid == t.Parent && st.start == t.ParentStart {
			return nil
		}
		pid = st.ppid
	}
	return errStranger
}

var errStranger = errors.New("the caller was not started by that crawler: its environment is a copy")
