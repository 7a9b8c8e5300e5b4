package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Thousands of calls on a slow disk wait far longer than one call may take, and none of them is given up.
func TestAQueueThatMovesIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newFiling(fileLimit)
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := c.do(t.Context(), func(context.Context) { time.Sleep(time.Second) }); err != nil { // fake time
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 50*time.Second {
			t.Errorf("100 calls of a second, two at a time, took %v", took)
		}
	})
}

func TestACallThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newFiling(fileLimit)
		began, dead := time.Now(), make(chan struct{})
		var all sync.WaitGroup
		for range 2 * fileSlots { // half of them never get a turn
			all.Go(func() {
				if err := c.do(t.Context(), func(context.Context) { <-dead }); !errors.Is(err, errHangs) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != fileLimit {
			t.Errorf("they were given up after %v", took)
		}
		close(dead)
		if !c.try(func() {}) {
			t.Error("what ended late holds its slot")
		}
	})
}

// Who is cut off does not go on while what was asked for is still being made: nobody would remove it.
func TestACallThatHasBegunIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newFiling(fileLimit)
		ctx, cancel := context.WithCancel(t.Context())
		made := false
		if err := c.do(ctx, func(context.Context) { cancel(); time.Sleep(time.Second); made = true }); err != nil || !made { // fake time
			t.Errorf("%v, made: %v", err, made)
		}
		if err := c.do(ctx, func(context.Context) { t.Error("it is made after all") }); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A slow disk holds up what was taken, not the knowledge that nothing lives any more.
func TestASweepSaysThatOnlyTheGivingBackWaits(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	root := filepath.Join(t.TempDir(), "root")
	p, err := s.Start(t.Context(), Spec{ID: NewID(), Argv: []string{"sleep", "1000"}, Env: os.Environ(), TempRoot: root})
	must(t, err)
	slow := make(chan struct{})
	for range fileSlots {
		s.files.slots <- struct{}{}
		go func() { <-slow; <-s.files.slots }()
	}
	must(t, p.Kill())
	<-p.Exited()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = p.Sweep(over)
	<-p.tree.done
	if _, err := p.Sweep(over); !errors.Is(err, ErrGivingBack) {
		t.Errorf("the sweep says %v", err)
	}
	close(slow)
	mustSweep(t, p)
}
