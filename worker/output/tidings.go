package output

import (
	"sync"
	"time"
)

// tellEvery is how long what there is to say of log files is gathered, once something was said: a full disk has thousands.
const tellEvery = 10 * time.Second

// tidings makes few lines of what happens to many log files: the first has its line at once, those of the next 10 s have one together.
type tidings struct {
	say     func(t tiding, files int)
	patient bool // nothing is said at once: who brings news holds locks

	mu    sync.Mutex      // guards what follows; nothing is said, and no other lock taken, under it
	next  *time.Timer     // nil: nothing was said for a while
	files map[string]bool // of which is to be told: their paths
	sum   tiding
}

// tiding is what happened to one file, or the latest of many.
type tiding struct {
	path string
	err  error
	lost int // lines, of all
}

func (t *tidings) add(news tiding) {
	if t.gather(news) {
		t.tell()
	}
}

// gather tells whether it is to be said at once.
func (t *tidings) gather(news tiding) (now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		t.files = make(map[string]bool)
	}
	t.files[news.path] = true
	news.lost += t.sum.lost
	t.sum = news
	if t.next != nil {
		return false
	}
	t.next = time.AfterFunc(tellEvery, t.later)
	return !t.patient
}

// later tells of what came meanwhile, and gathers on where there was something.
func (t *tidings) later() {
	said := t.tell()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.next == nil: // the end came first
	case said || len(t.files) > 0:
		t.next.Reset(tellEvery)
	default:
		t.next = nil
	}
}

// end tells of what there is still to say.
func (t *tidings) end() {
	t.mu.Lock()
	if t.next != nil {
		t.next.Stop()
		t.next = nil
	}
	t.mu.Unlock()
	t.tell()
}

// tell says what was gathered, if anything was.
func (t *tidings) tell() (said bool) {
	t.mu.Lock()
	sum, files := t.sum, len(t.files)
	clear(t.files)
	t.sum = tiding{}
	t.mu.Unlock()
	if files > 0 {
		t.say(sum, files)
	}
	return files > 0
}
