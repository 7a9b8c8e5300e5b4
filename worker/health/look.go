package health

import (
	"hash/maphash"
	"strconv"
	"time"
)

// look is one check of one process. It belongs to the goroutine of Run.
type look struct {
	Check
	watch *watch
	nth   int // of its checks
	tally tally
	why   string // it is unwell
	steps int    // pauses that were short, as it was not well yet; -1 once they were regular
	began time.Time
	at    time.Time
	slot  int // in the heap; -1 when it is not there
}

// firstPause is how soon one looks for a crawler that is to become well; each further pause is twice as long.
const firstPause = 250 * time.Millisecond

// pause until the next look. The first regular one is shortened, by half at most, so that checks of crawlers that started
// together do not stay together.
func (l *look) pause(m *Monitor, now time.Time) time.Duration {
	soon := l.steps == 0 || l.steps > 0 && now.Sub(l.watch.Started) < l.After
	if l.Kind.Gates() && l.tally.is == undecided && soon {
		if d := firstPause << min(l.steps, 20); d < l.Every {
			l.steps++
			return d
		}
	}
	if l.steps < 0 {
		return l.Every
	}
	l.steps = -1
	return l.Every - time.Duration(float64(l.Every)/2*l.share(m))
}

// share is a number from 0 to 1 of this look's own.
func (l *look) share(m *Monitor) float64 {
	return float64(maphash.String(m.seed, l.watch.ProcessID+strconv.Itoa(l.nth))>>11) / (1 << 53)
}

// looks is a heap by the time of the next look.
type looks []*look

func (h looks) Len() int           { return len(h) }
func (h looks) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h looks) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

// Push is for package heap.
func (h *looks) Push(x any) {
	l := x.(*look)
	l.slot = len(*h)
	*h = append(*h, l)
}

// Pop is for package heap.
func (h *looks) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.slot = -1
	return l
}
