package poll

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a pipe that is watched.
type line struct {
	Watch
	read, write int
	told        chan struct{}
}

func newLine(t *testing.T, p *Poller) *line {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	l := &line{read: ends[0], write: ends[1], told: make(chan struct{}, 9)}
	if err := p.Watch(&l.Watch, l.read, func() { l.told <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.End()
		_ = unix.Close(l.read)
		_ = unix.Close(l.write)
	})
	return l
}

func (l *line) say(t *testing.T, text string) {
	t.Helper()
	if _, err := unix.Write(l.write, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func (l *line) hear(t *testing.T) {
	t.Helper()
	select {
	case <-l.told:
	case <-time.After(time.Minute):
		t.Fatal("nothing was told")
	}
}

// settle returns when everything that happened before was told.
func settle(t *testing.T, p *Poller) {
	t.Helper()
	l := newLine(t, p)
	l.say(t, "x")
	l.hear(t)
	l.End()
}

func TestAWatchTellsOnceUntilItIsAskedAgain(t *testing.T) {
	t.Parallel()
	var p Poller
	l := newLine(t, &p)
	l.say(t, "a")
	l.hear(t)
	l.say(t, "b")
	settle(t, &p)
	if len(l.told) != 0 {
		t.Error("it told again without being asked")
	}
	l.Again() // what is there already is told too
	l.hear(t)
	l.End()
	l.Again()
	l.End()
	l.say(t, "c")
	settle(t, &p)
	if len(l.told) != 0 {
		t.Error("it told after its end")
	}
}

func TestTheEndOfAPipeIsTold(t *testing.T) {
	t.Parallel()
	var p Poller
	l := newLine(t, &p)
	_ = unix.Close(l.write)
	l.write = -1
	l.hear(t)
}

// A number that is used again is another descriptor: who had it before hears nothing of it, also not by an event that was
// fetched before.
func TestANumberThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	var p Poller
	keeps := newLine(t, &p)
	old := newLine(t, &p)
	stale := *old.event()
	old.End()
	told := make(chan struct{}, 1)
	var again Watch
	if err := p.Watch(&again, old.read, func() { told <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	defer again.End()
	if n := len(p.told(p.epoll, []unix.EpollEvent{stale, *again.event()}, nil)); n != 1 {
		t.Errorf("%d were told", n)
	}
	old.say(t, "x")
	<-told
	if len(old.told)+len(keeps.told) != 0 {
		t.Error("another heard of it")
	}
}

// Without anything to watch there is no goroutine and no descriptor, and after that it works again.
func TestAPollerWithoutWatchesIsNothing(t *testing.T) {
	t.Parallel()
	var p Poller
	for range 3 {
		l := newLine(t, &p)
		l.say(t, "x")
		l.hear(t)
		l.End()
		if p.epoll != nil {
			t.Error("the epoll is still open")
		}
	}
	var w Watch
	w.Again()
	w.End()
	if err := p.Watch(&w, 1<<20, func() {}); err == nil || p.epoll != nil {
		t.Errorf("a descriptor that is none: %v", err)
	}
}
