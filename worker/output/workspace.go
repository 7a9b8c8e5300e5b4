package output

import (
	"runtime"
	"time"
)

const (
	readBytes  = 64 << 10 // a pipe's usual capacity
	flushBytes = 64 << 10 // as much is gathered before it is handed on
	keepBytes  = 256 << 10
)

// workspace is what a reader needs while it handles one read: a buffer, and the lines as they go to the sinks, gathered
// so that their locks are taken once.
type workspace struct {
	raw [readBytes]byte

	// The read at hand; valid while the Output is locked.
	pipe  *pipe
	at    time.Time
	head  []byte // what stands before every line that is forwarded
	lines uint64
	bytes uint64
	cut   uint64

	forward, file batch
}

// batch is a number of whole lines.
type batch struct {
	data  []byte
	lines int
}

func (b *batch) reset() {
	b.data, b.lines = b.data[:0], 0
	if cap(b.data) > keepBytes {
		b.data = nil
	}
}

// deliver hands on the lines of one read.
func (w *workspace) deliver(p *pipe, chunk []byte) {
	w.with(p, func() { p.lines.split(chunk, w) })
}

// finish hands on the line that a pipe ended in.
func (w *workspace) finish(p *pipe) {
	w.with(p, func() { p.lines.finish(w) })
}

func (w *workspace) with(p *pipe, split func()) {
	o := p.stream.out
	w.pipe, w.at = p, time.Now()
	w.lines, w.bytes, w.cut = 0, 0, 0
	if f := p.stream.forward; f != nil {
		w.head = appendHead(w.head[:0], f.format, o.source, p.name, w.at)
	}
	dropped := p.lines.dropped
	o.mu.Lock()
	split()
	if w.lines > 0 {
		o.lastAt = w.at
	}
	o.mu.Unlock()
	w.flushForward()
	w.flushFile()
	o.lines.Add(w.lines)
	o.bytes.Add(w.bytes)
	o.cutLines.Add(w.cut)
	o.cutBytes.Add(p.lines.dropped - dropped)
	w.pipe = nil
}

// takeLine is called by the splitter for every line. The Output is locked.
func (w *workspace) takeLine(text []byte, cut bool) {
	s := w.pipe.stream
	w.lines++
	w.bytes += uint64(len(text))
	if cut {
		w.cut++
	}
	s.out.ring.add(text, w.pipe.name == Stderr, cut, w.at)
	if reason := closedReason(text); reason != nil {
		s.closed = append(s.closed[:0], reason...)
	}
	if len(s.out.followers) > 0 {
		s.out.tellFollowers(copyLine(Line{Stream: w.pipe.name, At: w.at, Text: text, Cut: cut}))
	}
	if s.forward != nil {
		w.forward.data = append(w.forward.data, w.head...)
		w.forward.data = appendBody(w.forward.data, s.forward.format, text, cut)
		if w.forward.lines++; len(w.forward.data) >= flushBytes {
			w.flushForward()
		}
	}
	if s.file != nil {
		w.file.data = appendPlain(w.file.data, text, cut)
		if w.file.lines++; len(w.file.data) >= flushBytes {
			w.flushFile()
		}
	}
}

func (w *workspace) flushForward() {
	if w.forward.lines > 0 {
		w.pipe.stream.forward.push(w.pipe.stream.out, w.forward)
		w.forward.reset()
	}
}

func (w *workspace) flushFile() {
	if w.file.lines > 0 {
		w.pipe.stream.file.push(w.pipe.stream.out, w.file)
		w.file.reset()
	}
}

// tellFollowers offers the line to all. o is locked.
func (o *Output) tellFollowers(l Line) {
	for _, f := range o.followers {
		if !f.offer(l) {
			o.lostFollow.Add(1)
		}
	}
}

// workspaces holds the few workspaces that all readers share. An empty place stands for one that is still to be made.
type workspaces chan *workspace

func newWorkspaces() workspaces {
	n := max(8, 2*runtime.GOMAXPROCS(0))
	pool := make(workspaces, n)
	for range n {
		pool <- nil
	}
	return pool
}

// take waits for a workspace: those who have one never wait for anything but a processor.
func (c workspaces) take() *workspace {
	if w := <-c; w != nil {
		return w
	}
	return new(workspace)
}

func (c workspaces) put(w *workspace) { c <- w }
