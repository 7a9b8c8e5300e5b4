package output

import (
	"log/slog"
	"sync"
	"time"
)

// fileLosses tells of lines that found no room, as their log file, or the disk of all, takes them too slowly. A disk that says why
// is told of where it is written. The log is told by a goroutine of its own, as those who lose lines hold locks.
type fileLosses struct {
	logger *slog.Logger

	mu    sync.Mutex // guards what follows; no other lock is taken under it
	lines int        // not told yet
	path  string     // of the last file that lost some
	due   *time.Timer
	ended bool
}

// add counts lines that were lost. They are told ten seconds later, with those that were lost meanwhile.
func (l *fileLosses) add(path string, lines int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines += lines
	l.path = path
	if l.due == nil && !l.ended {
		l.due = time.AfterFunc(mentionEvery, l.tell)
	}
}

// tell logs what was not told yet.
func (l *fileLosses) tell() {
	l.mu.Lock()
	lines, path := l.lines, l.path
	l.lines, l.due = 0, nil
	l.mu.Unlock()
	if lines > 0 {
		l.logger.Warn("lines of crawlers were lost: log files are written too slowly", "lines", lines, "path", path)
	}
}

// end tells what is left, and nothing afterwards.
func (l *fileLosses) end() {
	l.mu.Lock()
	l.ended = true
	if l.due != nil {
		l.due.Stop()
	}
	l.mu.Unlock()
	l.tell()
}
