package output

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pendingBytes bounds what waits of one log file.
const pendingBytes = 1 << 20

// FileOptions is how a log file is kept.
type FileOptions struct {
	// Path is the whole path. Missing directories are made. Sources that have the same path share the file.
	Path string
	// MaxBytes is the size at which the file is rotated, at the end of a line. 0 means 50 MiB. Only a single line that is longer makes a larger file.
	MaxBytes int64
	// MaxAge is the age at which the file is rotated, when the next line comes. 0 means never.
	MaxAge time.Duration
	// Keep is how many rotated files are kept. 0 means 5, less than 0 none.
	Keep int
	// Compress makes .gz files of the rotated ones.
	Compress bool
}

func (o FileOptions) withDefaults() FileOptions {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 50 << 20
	}
	if o.Keep == 0 {
		o.Keep = 5
	}
	o.Keep = max(o.Keep, 0)
	return o
}

// logFile is one log file: lines that wait for a writer, and what is on the disk.
type logFile struct {
	set  *files
	path string
	opts atomic.Pointer[FileOptions]
	refs int // guarded by set.mu

	mu       sync.Mutex // guards what follows
	pending  []byte     // whole lines; a buffer is lent only while lines wait
	origins  []origin   // whose they are, in the same order
	busy     bool       // waits in the queue or is being written
	since    time.Time  // when the oldest of what is not yet on the disk came
	roomMade chan struct{}

	disk disk // of the writer that serves the file; there is at most one at a time
}

// origin is a number of lines of one source.
type origin struct {
	out   *Output
	lines int
}

// push takes lines of a crawler. It never blocks.
func (f *logFile) push(o *Output, b batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stopped := f.set.stopped.Load()
	if stopped || len(f.pending) >= pendingBytes || !f.set.memory.take(len(b.data)) {
		f.set.lost.Add(uint64(b.lines))
		o.lostFile.Add(uint64(b.lines))
		if !stopped {
			f.set.slow.add(tiding{path: f.path, lost: b.lines})
		}
		return
	}
	f.pending = append(f.pending, b.data...)
	if n := len(f.origins); n > 0 && f.origins[n-1].out == o {
		f.origins[n-1].lines += b.lines
	} else {
		f.origins = append(f.origins, origin{o, b.lines})
	}
	f.wake()
}

// schedule makes a writer look at the file.
func (f *logFile) schedule() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake()
}

// wake is called with f locked.
func (f *logFile) wake() {
	if !f.busy {
		f.busy = true
		f.since = time.Now()
		f.set.enqueue(f)
	}
}

// room returns a channel that is closed when there is room again; nil when there is room, or when there is no use in waiting.
func (f *logFile) room() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	crowded := len(f.pending) >= pendingBytes/2 || f.set.memory.used.Load() > fileBytes*3/4
	if !f.busy || !crowded || time.Since(f.since) > stalledAfter || f.set.stuck() {
		return nil
	}
	if f.roomMade == nil {
		f.roomMade = make(chan struct{})
	}
	return f.roomMade
}

// serve writes what waits. spare is lent to the lines that come in the meantime; a buffer is returned for the next file.
func (f *logFile) serve(spare []byte) []byte {
	data, origins := f.takeAll(spare)
	if len(data) > 0 {
		lost := f.write(data)
		f.set.memory.give(len(data))
		f.set.lost.Add(uint64(lost))
		blame(origins, lost)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = time.Now()
	if len(f.pending) == 0 { // take the spare back
		if cap(f.pending) > cap(data) {
			data = f.pending
		}
		f.pending = nil
	}
	if cap(data) > 2*pendingBytes {
		return nil
	}
	return data[:0]
}

// blame counts lines as lost with the sources that they are of. What is lost is the end of what was to be written.
func blame(origins []origin, lost int) {
	for _, from := range slices.Backward(origins) {
		n := min(lost, from.lines)
		from.out.lostFile.Add(uint64(n))
		lost -= n
	}
}

func (f *logFile) takeAll(spare []byte) ([]byte, []origin) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, origins := f.pending, f.origins
	f.pending, f.origins = spare, nil
	if f.roomMade != nil {
		close(f.roomMade)
		f.roomMade = nil
	}
	return data, origins
}

// requeue makes the file wait again when lines came while it was served. Others get their turn first.
func (f *logFile) requeue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy = false; len(f.pending) > 0 {
		f.wake()
	}
}

func (f *logFile) waiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pending) > 0
}
