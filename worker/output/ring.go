package output

import (
	"encoding/binary"
	"time"
)

const (
	ringBytes  = 8 << 10 // what is kept of a source, the heads of the lines included
	ringStart  = 256     // first size; it doubles as lines come
	ringHeader = 4 + 1 + 8
	ringMax    = ringBytes - ringHeader // the longest text kept; of longer lines the beginning

	flagStderr = 1 << 0
	flagCut    = 1 << 1
)

// ring keeps the last lines of a source in at most ringBytes. Nothing is allocated before the first line.
// Whoever owns it guards it.
//
// Each line is a header (length of the text, flags, time in Unix nanoseconds) and its text, written around the end of buf.
type ring struct {
	buf         []byte
	start, used int    // bytes
	first, next uint64 // number of the oldest line that is kept, and of the one to come
}

// add keeps a line and forgets as many old ones as it takes.
func (r *ring) add(text []byte, stderr, cut bool, at time.Time) {
	if len(text) > ringMax {
		text, cut = text[:ringMax], true
	}
	var head [ringHeader]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(text)))
	if stderr {
		head[4] |= flagStderr
	}
	if cut {
		head[4] |= flagCut
	}
	binary.LittleEndian.PutUint64(head[5:], uint64(at.UnixNano()))
	r.makeRoom(ringHeader + len(text))
	r.write(head[:])
	r.write(text)
	r.next++
}

// makeRoom grows the buffer while it may, then forgets the oldest lines.
func (r *ring) makeRoom(n int) {
	if size := len(r.buf); r.used+n > size && size < ringBytes {
		size = max(size, ringStart)
		for size < r.used+n && size < ringBytes {
			size *= 2
		}
		grown := make([]byte, size)
		r.read(grown[:r.used], 0)
		r.buf, r.start = grown, 0
	}
	for r.used+n > len(r.buf) {
		size := ringHeader + r.textLen(0)
		r.start = (r.start + size) % len(r.buf)
		r.used -= size
		r.first++
	}
}

// write appends bytes for which there is room.
func (r *ring) write(b []byte) {
	at := (r.start + r.used) % len(r.buf)
	n := copy(r.buf[at:], b)
	copy(r.buf, b[n:])
	r.used += len(b)
}

// read copies what stands at an offset from the start.
func (r *ring) read(dst []byte, offset int) {
	if len(dst) == 0 {
		return
	}
	at := (r.start + offset) % len(r.buf)
	n := copy(dst, r.buf[at:])
	copy(dst[n:], r.buf)
}

// textLen is the length of the text whose header stands at offset.
func (r *ring) textLen(offset int) int {
	var size [4]byte
	r.read(size[:], offset)
	return int(binary.LittleEndian.Uint32(size[:]))
}

// last returns copies of the last n lines, the oldest first, of those with a number of at least from.
func (r *ring) last(n int, from uint64) []Line {
	from = max(from, r.first)
	if n <= 0 || from >= r.next {
		return nil
	}
	if r.next-from > uint64(n) {
		from = r.next - uint64(n)
	}
	lines := make([]Line, 0, r.next-from)
	for offset, number := 0, r.first; number < r.next; number++ {
		size := r.textLen(offset)
		if number >= from {
			lines = append(lines, r.line(offset, size))
		}
		offset += ringHeader + size
	}
	return lines
}

// line decodes the line at offset.
func (r *ring) line(offset, size int) Line {
	var head [ringHeader]byte
	r.read(head[:], offset)
	text := make([]byte, size)
	r.read(text, offset+ringHeader)
	l := Line{
		Stream: Stdout,
		At:     time.Unix(0, int64(binary.LittleEndian.Uint64(head[5:]))),
		Text:   text,
		Cut:    head[4]&flagCut != 0,
	}
	if head[4]&flagStderr != 0 {
		l.Stream = Stderr
	}
	return l
}
