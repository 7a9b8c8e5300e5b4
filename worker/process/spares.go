package process

import (
	"context"
	"sync"
	"time"

	"crawlkeeper/worker/borrowed"
)

// What was made for a process of which nothing is left waits for another process where that many live, or did within that time,
// until for so long none has come.
const (
	spareFrom = 100
	spareFor  = 10 * time.Second
)

// crowd knows whether many processes live, or did a moment ago.
type crowd struct {
	mu   sync.Mutex
	many time.Time // when spareFrom processes were seen to live; guarded by mu
}

func (c *crowd) there(live int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if live >= spareFrom {
		c.many = time.Now()
	}
	return time.Since(c.many) < spareFor
}

// spares are what waits for another process, by who may have it.
type spares[K comparable, V any] struct {
	dropping sync.Mutex // held while some are removed

	mu     sync.Mutex // guards all below
	list   map[K][]V
	timer  *time.Timer // nil: there are none
	closed bool
}

// put keeps something, for which drop is called where it is not taken in time. False: none are kept any more.
func (s *spares[K, V]) put(of K, v V, drop func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(spareFor, drop)
		s.list = map[K][]V{}
	}
	s.timer.Reset(spareFor)
	s.list[of] = append(s.list[of], v)
	return true
}

func (s *spares[K, V]) take(of K) (v V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.list[of]
	if len(all) == 0 {
		return v, false
	}
	last := len(all) - 1
	s.list[of] = all[:last]
	return all[last], true
}

// drain takes all and removes them. Who comes second waits for the first.
func (s *spares[K, V]) drain(remove func([]V)) {
	s.dropping.Lock()
	defer s.dropping.Unlock()
	remove(s.empty())
}

// empty takes all.
func (s *spares[K, V]) empty() (all []V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.list {
		all = append(all, v...)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.list, s.timer = nil, nil
	return all
}

func (s *spares[K, V]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *spares[K, V]) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// owner is as whom processes run that may use a directory.
type owner struct {
	other    bool // than we
	uid, gid uint32
}

func ownerOf(user *borrowed.Owner) owner {
	if user == nil {
		return owner{}
	}
	return owner{true, user.Uid, user.Gid}
}

// makeTemp makes the directory for temporary files of a process. While many crawlers are started anew it is one in which another
// process has left nothing: to make a directory is slow where many were just removed, as ext4 passes over each number of theirs for
// minutes.
func (s *Spawner) makeTemp(place borrowed.Place, user *borrowed.Owner) error {
	if spare, ok := s.temps.take(ownerOf(user)); ok {
		err := spare.Become(place)
		s.claims.drop(spare.ID)
		if err == nil {
			return nil
		}
	}
	return place.MakeTemp(user)
}

// putBack removes the directory for temporary files of a process of which nothing lives any more, or keeps it for another.
func (s *Spawner) putBack(place borrowed.Place, user *borrowed.Owner) error {
	return s.removing(func(ctx context.Context) error {
		if s.spare(place, user) {
			return nil
		}
		return place.RemoveTemp(ctx)
	})
}

// spare keeps a directory that is as it was made. False where it is not, or none are kept any more.
func (s *Spawner) spare(place borrowed.Place, user *borrowed.Owner) bool {
	if !s.crowd.there(s.live.Load()) || s.temps.isClosed() || !place.Unused(user) {
		return false
	}
	s.claims.take(place.ID) // its process is about to drop it
	if s.temps.put(ownerOf(user), place, s.DropSpares) {
		return true
	}
	s.claims.drop(place.ID)
	return false
}

// NoSpares keeps no more directories for processes to come: few do. It does not wait.
func (s *Spawner) NoSpares() { s.temps.close() }

// DropSpares removes the directories that wait for a process, within a limited time for all. What is left the janitor finds, or the
// next manager.
func (s *Spawner) DropSpares() {
	s.temps.drain(func(places []borrowed.Place) {
		_ = s.files.do(context.Background(), func(ctx context.Context) {
			for _, place := range places {
				if ctx.Err() != nil || place.RemoveTemp(ctx) != nil {
					break
				}
			}
		})
		for _, place := range places {
			s.claims.drop(place.ID)
		}
	})
}
