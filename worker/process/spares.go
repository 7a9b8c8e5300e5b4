package process

import (
	"context"
	"sync"
	"time"

	"crawlkeeper/worker/borrowed"
)

// An empty directory waits for another process where that many live, or did within that time, until for so long none has come.
const (
	spareFrom = 100
	spareFor  = 10 * time.Second
)

// spares are directories for temporary files in which their processes have left nothing. While many crawlers are started
// anew the next ones get them: to make a directory is slow where many were just removed, as ext4 passes over each number of
// theirs for minutes.
type spares struct {
	dropping sync.Mutex // held while some are removed

	mu     sync.Mutex // guards all below
	list   map[owner][]borrowed.Place
	timer  *time.Timer // nil: there are none
	many   time.Time   // when spareFrom processes were seen to live
	closed bool
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

// makeTemp makes the directory for temporary files of a process.
func (s *Spawner) makeTemp(place borrowed.Place, user *borrowed.Owner) error {
	if spare, ok := s.spares.take(ownerOf(user)); ok {
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

// spare keeps a directory that is as it was made, under another name. False where it is not, or none are kept any more.
func (s *Spawner) spare(place borrowed.Place, user *borrowed.Owner) bool {
	as, ok := s.spares.name(place.Root, s.live.Load())
	if !ok || !place.Unused(user) {
		return false
	}
	s.claims.take(as.ID)
	if err := place.Become(as); err != nil {
		s.claims.drop(as.ID)
		return false
	}
	if s.spares.put(ownerOf(user), as, s.DropSpares) {
		return true
	}
	err := as.Become(place)
	s.claims.drop(as.ID)
	return err != nil // then the janitor finds it
}

// NoSpares keeps no more directories for processes to come: few do. It does not wait.
func (s *Spawner) NoSpares() {
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	s.spares.closed = true
}

// DropSpares removes the directories that wait for a process, within a limited time for all. What is left the janitor finds, or the
// next manager.
func (s *Spawner) DropSpares() {
	s.spares.dropping.Lock() // who comes second waits
	defer s.spares.dropping.Unlock()
	places := s.spares.empty()
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
}

// name makes a name for a directory, where one is kept while so many processes live.
func (s *spares) name(root string, live int64) (borrowed.Place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if live >= spareFrom {
		s.many = time.Now()
	}
	return borrowed.Place{Root: root, ID: "spare-" + NewID()}, !s.closed && time.Since(s.many) < spareFor
}

func (s *spares) put(o owner, place borrowed.Place, drop func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(spareFor, drop)
		s.list = map[owner][]borrowed.Place{}
	}
	s.timer.Reset(spareFor)
	s.list[o] = append(s.list[o], place)
	return true
}

func (s *spares) take(o owner) (borrowed.Place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := s.list[o]
	if len(places) == 0 {
		return borrowed.Place{}, false
	}
	last := len(places) - 1
	s.list[o] = places[:last]
	return places[last], true
}

// empty takes all.
func (s *spares) empty() (all []borrowed.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, places := range s.list {
		all = append(all, places...)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.list, s.timer = nil, nil
	return all
}
