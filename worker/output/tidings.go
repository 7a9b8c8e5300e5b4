package output

import (
	"sync"
	"time"
)

// tellEvery is how long what there is to say of log files is gathered, once something was said: a full disk has thousands.
const tellEvery = 10 * time.Second

// tidings makes few lines of what happens to many log files: the first has its line at once, those of the next 10 s have one together.
type tidings struct {
	say func(t tiding, files int)

	mu    sync.Mutex
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		t.files = make(map[string]bool)
	}
	t.files[news.path] = true
	news.lost += t.sum.lost
	t.sum = news
	if t.next == nil {
		t.tell()
		t.next = time.AfterFunc(tellEvery, t.later)
	}
}

// later tells of what came meanwhile, and gathers on where there was something.
func (t *tidings) later() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		return // the end came first
	}
	if len(t.files) == 0 {
		t.next = nil
		return
	}
	t.tell()
	t.next.Reset(tellEvery)
}

// end tells of what there is still to say.
func (t *tidings) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil {
		t.next.Stop()
		t.next = nil
	}
	t.tell()
}

// tell is called with mu held.
func (t *tidings) tell() {
	if len(t.files) > 0 {
		t.say(t.sum, len(t.files))
	}
	clear(t.files)
	t.sum = tiding{}
}
