package output

import "bytes"

// freePartial is how long an unfinished line may become before it draws on the budget that all pipes share.
const freePartial = 16 << 10

// lineTaker takes the lines that a splitter finds. text is only valid during the call.
type lineTaker interface {
	takeLine(text []byte, cut bool)
}

// splitter makes lines of what is read from a pipe, however it comes in pieces. It belongs to the goroutine that reads the pipe.
//
// A line longer than max is handed on as soon as that is known, cut; what follows up to its end is dropped. The same happens to an
// unfinished line for which memory is short.
type splitter struct {
	max     int
	memory  *budget
	dropped uint64 // bytes of cut lines that were dropped

	partial  []byte // the beginning of a line that has no end yet; nil when there is none
	charged  int    // bytes taken from memory
	skipping bool   // the line at hand was cut, its rest is dropped
}

// split hands on every line that ends in chunk and keeps what is left.
func (s *splitter) split(chunk []byte, to lineTaker) {
	for len(chunk) > 0 {
		end := bytes.IndexByte(chunk, '\n')
		if end < 0 {
			s.keep(chunk, to)
			return
		}
		s.endLine(chunk[:end], to)
		chunk = chunk[end+1:]
	}
}

// finish hands on a last line that has no end.
func (s *splitter) finish(to lineTaker) {
	if len(s.partial) > 0 {
		s.emit(to, false)
	}
	s.skipping = false
}

// endLine completes a line with its last bytes.
func (s *splitter) endLine(last []byte, to lineTaker) {
	if len(s.partial) == 0 && !s.skipping && len(last) <= s.max {
		to.takeLine(last, false) // the usual case: no copy
		return
	}
	s.keep(last, to)
	if !s.skipping {
		s.emit(to, false)
	}
	s.skipping = false
}

// keep adds bytes to the unfinished line, or cuts it.
func (s *splitter) keep(b []byte, to lineTaker) {
	if s.skipping {
		s.dropped += uint64(len(b))
		return
	}
	fits := min(len(b), s.max-len(s.partial))
	switch {
	case s.grow(len(s.partial) + fits):
		s.partial = append(s.partial, b[:fits]...)
		if fits == len(b) {
			return
		}
		s.emit(to, true)
	case len(s.partial) == 0:
		to.takeLine(b[:fits], true)
	default:
		fits = 0
		s.emit(to, true)
	}
	s.dropped += uint64(len(b) - fits)
	s.skipping = true
}

// grow makes room for an unfinished line of n bytes. False says that memory is short.
func (s *splitter) grow(n int) bool {
	if n <= cap(s.partial) {
		return true
	}
	size := min(max(n, 2*cap(s.partial)), s.max)
	if more := size - freePartial - s.charged; more > 0 {
		if !s.memory.take(more) {
			return false
		}
		s.charged += more
	}
	grown := make([]byte, len(s.partial), size)
	copy(grown, s.partial)
	s.partial = grown
	return true
}

// emit hands on the unfinished line and lets its memory go: a quiet pipe keeps none.
func (s *splitter) emit(to lineTaker, cut bool) {
	to.takeLine(s.partial, cut)
	s.memory.give(s.charged)
	s.partial, s.charged = nil, 0
}
