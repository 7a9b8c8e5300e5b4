package output

import (
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// fileBytes bounds what waits for the disk, of all log files together.
const fileBytes = 64 << 20

// files is the set of all log files and the queue in which they wait for one of the few writers.
type files struct {
	logger *slog.Logger
	open   openFunc
	memory budget
	old    chores

	fail, again tidings // of files that cannot be written, and can be again
	slow        tidings // of those for which lines found no room; a disk that says why is told of by fail

	lost    atomic.Uint64 // lines
	errors  atomic.Uint64
	stopped atomic.Bool // lines that come now are lost

	epoch   time.Time                 // what writing counts from
	writing [fileWriters]atomic.Int64 // since when each writer is at its file, in nanoseconds; 0 when it is at none

	mu     sync.Mutex // guards what follows, and refs and retiring of every log file
	some   *sync.Cond // ready is not empty, or the end has come
	byPath map[string]*logFile
	ready  []*logFile
	ending bool
}

func newFiles(logger *slog.Logger) *files {
	fs := &files{
		logger: logger,
		open:   openLogFile,
		memory: budget{limit: fileBytes},
		byPath: make(map[string]*logFile),
		old:    newChores(),
		epoch:  time.Now().Add(-time.Nanosecond),
	}
	fs.some = sync.NewCond(&fs.mu)
	fs.fail.say = func(t tiding, files int) {
		logger.Warn("log file of crawlers cannot be written, lines are lost", "path", t.path, "error", t.err, "files", files)
	}
	fs.slow.patient = true
	fs.slow.say = func(t tiding, files int) {
		logger.Warn("lines of crawlers were lost: log files are written too slowly", "lines", t.lost, "path", t.path, "files", files)
	}
	fs.again.say = func(t tiding, files int) {
		logger.Info("log file of crawlers is written again", "path", t.path, "lost_lines", t.lost, "files", files)
	}
	return fs
}

// acquire returns the log file of that path for one more user. The options of the latest user hold.
func (fs *files) acquire(opts FileOptions) *logFile {
	opts = opts.withDefaults()
	opts.Path = filepath.Clean(opts.Path)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.byPath[opts.Path]
	if f == nil {
		f = &logFile{set: fs, path: opts.Path}
		fs.byPath[opts.Path] = f
	}
	f.opts.Store(&opts)
	f.refs++
	return f
}

// hold adds a user to a file that has one.
func (fs *files) hold(f *logFile) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.refs++
}

// release takes a user away. A file without one is closed when its lines are written. nil is allowed.
func (fs *files) release(f *logFile) {
	if f == nil {
		return
	}
	fs.mu.Lock()
	f.refs--
	last := f.refs == 0
	fs.mu.Unlock()
	if last {
		f.schedule()
	}
}

// enqueue makes a file wait for a writer. It is called with f locked, and only for a file that is not waiting and not being written.
func (fs *files) enqueue(f *logFile) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.ready = append(fs.ready, f)
	fs.some.Signal()
}

// next waits for a file with something to do; nil says that the end has come and all is written.
func (fs *files) next() *logFile {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for len(fs.ready) == 0 {
		if fs.ending {
			return nil
		}
		fs.some.Wait()
	}
	f := fs.ready[0]
	fs.ready[0] = nil
	fs.ready = fs.ready[1:]
	return f
}

// serve is the life of a writer: it writes what waits, one file after the other, until stop was called and nothing waits any more.
func (fs *files) serve(writer int) {
	var spare []byte
	for f := fs.next(); f != nil; f = fs.next() {
		fs.writing[writer].Store(int64(time.Since(fs.epoch)))
		spare = f.serve(spare)
		fs.retire(f)
		f.requeue()
		fs.writing[writer].Store(0)
	}
}

// stuck says whether every writer is at its file for so long that there is no use in waiting for one.
func (fs *files) stuck() bool {
	longAgo := int64(time.Since(fs.epoch) - stalledAfter)
	for i := range fs.writing {
		if since := fs.writing[i].Load(); since == 0 || since > longAgo {
			return false
		}
	}
	return true
}

// retire closes a file that has no user and nothing to write.
func (fs *files) retire(f *logFile) {
	if f.waiting() {
		return
	}
	fs.mu.Lock()
	gone := f.refs == 0
	if gone && fs.byPath[f.path] == f {
		delete(fs.byPath, f.path)
	}
	fs.mu.Unlock()
	if gone {
		_ = f.closeDisk() // all is written, and an error would change nothing
	}
}

// stop lets the writers end when nothing waits any more.
func (fs *files) stop() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.stopped.Store(true)
	fs.ending = true
	fs.some.Broadcast()
}

// close closes all files. The writers have ended.
func (fs *files) close() error {
	fs.mu.Lock()
	all := slices.Collect(maps.Values(fs.byPath))
	fs.mu.Unlock()
	fs.fail.end()
	fs.again.end()
	var errs []error
	for _, f := range all {
		errs = append(errs, f.closeDisk())
	}
	return errors.Join(errs...)
}
