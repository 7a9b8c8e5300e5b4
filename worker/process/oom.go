package process

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// oomWatch counts kills for want of memory in our own cgroup, which trees without a memory controller of their own share
// with us. Each kill is held against one death.
type oomWatch struct {
	file string // empty where there is no such counter

	mu   sync.Mutex
	held *os.File // file, from the first look on: each end of a process is one
	last uint64
	open uint64    // kills that no death was held against
	at   time.Time // when the counter was seen to move
}

// openFor bounds how long before a death the counter may have moved: a descendant that was killed long ago does not
// explain it.
const openFor = 5 * time.Second

func newOOMWatch() *oomWatch {
	w := &oomWatch{}
	if dir, err := OwnCgroup(""); err == nil {
		w.file = filepath.Join(dir, "memory.events")
	}
	if _, ok := keyedValue(w.file, "oom_kill"); !ok {
		w.file = ""
		if dir, err := OwnCgroup("memory"); err == nil { // v1
			w.file = filepath.Join(dir, "memory.oom_control")
		}
	}
	w.last, _ = keyedValue(w.file, "oom_kill")
	return w
}

// look takes note of kills up to now.
func (w *oomWatch) look(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refresh(now)
}

// took tells whether a kill explains a death by SIGKILL just now.
func (w *oomWatch) took(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refresh(now)
	if w.open == 0 || now.Sub(w.at) > openFor {
		w.open = 0
		return false
	}
	w.open--
	return true
}

func (w *oomWatch) refresh(now time.Time) {
	if w.file == "" {
		return
	}
	n, ok := w.kills()
	if !ok || n == w.last {
		return
	}
	if now.Sub(w.at) > openFor {
		w.open = 0
	}
	if n > w.last {
		w.open += n - w.last
	}
	w.last, w.at = n, now
}

func (w *oomWatch) kills() (uint64, bool) {
	if w.held == nil {
		f, err := os.Open(w.file)
		if err != nil {
			noteBlind(err)
			return 0, false
		}
		w.held = f
	}
	var data [512]byte
	n, err := w.held.ReadAt(data[:], 0)
	if err != nil && err != io.EOF {
		return 0, false
	}
	return valueOf(data[:n], "oom_kill")
}
