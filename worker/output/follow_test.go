package output

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// followed gathers what a follower sees, in a goroutine of its own.
type followed struct {
	mu    sync.Mutex
	lines []string
	done  chan struct{}
}

func follow(ctx context.Context, o *Output, last int) *followed {
	f := &followed{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for l := range o.Follow(ctx, last) {
			f.mu.Lock()
			f.lines = append(f.lines, string(l.Text))
			f.mu.Unlock()
		}
	}()
	return f
}

func (f *followed) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lines)
}

func followers(o *Output) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.followers)
}

// Followers see the kept lines and all that come, over restarts, each line once.
func TestFollowAcrossRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	o := r.output("news", Options{Mode: Forward})
	c := r.start(o)
	c.print("a\nb\nc\n")
	eventually(t, "the lines came", func() bool { return o.Stats().Lines == 3 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	two, none := follow(ctx, o, 2), follow(ctx, o, 0)
	eventually(t, "both follow", func() bool { return followers(o) == 2 })
	c.print("d\n")
	c.end()
	next := r.start(o)
	next.print("e\n")
	next.end()
	eventually(t, "both saw all", func() bool { return two.count() == 4 && none.count() == 2 })
	cancel()
	<-two.done
	<-none.done
	if diff := cmp.Diff([]string{"b", "c", "d", "e"}, two.lines); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"d", "e"}, none.lines); diff != "" {
		t.Error(diff)
	}
	if followers(o) != 0 {
		t.Error("a follower was left behind")
	}
}

// A follower that takes nothing costs bounded memory, does not hold up the crawler, and learns how much it missed.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	o := r.output("news", Options{Mode: Forward})
	c := r.start(o)
	c.print("first\n")
	eventually(t, "the line came", func() bool { return o.Stats().Lines == 1 })
	seen, lost := uint64(0), uint64(0)
	for l := range o.Follow(t.Context(), 1) {
		seen++
		lost += l.Lost
		switch {
		case string(l.Text) == "last":
			if s := o.Stats(); lost == 0 || lost != s.LostFollow || seen+lost != s.Lines {
				t.Errorf("saw %d lines, missed %d, %+v", seen, lost, s)
			}
			return
		case seen == 1: // busy with the first line while the crawler writes many
			flood(c.stdout, 8<<20)
			c.print("\n")
			c.end()
		case seen+o.Stats().LostFollow == o.Stats().Lines: // all that waited was taken: there is room for one more
			c = r.start(o)
			c.print("last\n")
			c.end()
		}
	}
}

// Closing the Output ends those who follow, after they saw what there was.
func TestCloseEndsFollowers(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	o := r.output("news", Options{Mode: Forward})
	c := r.start(o)
	f := follow(t.Context(), o, 10)
	for i := range 100 {
		c.print("%s", fmt.Sprintln(i))
	}
	c.end()
	eventually(t, "the follower is there", func() bool { return followers(o) == 1 || f.count() > 0 })
	o.Close()
	<-f.done
	if len(f.lines) == 0 || f.lines[len(f.lines)-1] != "99" {
		t.Errorf("saw %d lines", len(f.lines))
	}
}
