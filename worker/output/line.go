package output

import (
	"bytes"
	"slices"
	"time"

	"crawlkeeper/internal/plain"
)

// MaxLine is the greatest length of a line in bytes, without its end. Longer lines are cut.
const MaxLine = 1 << 20

// CutMark stands at the end of a line that was cut, wherever lines are shown as text.
const CutMark = " [cut]"

// The names of the two streams of a crawler.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Line is one line that a crawler wrote, without its end.
type Line struct {
	Stream string    // Stdout or Stderr
	At     time.Time // when it was read
	Text   []byte    // any bytes but a newline; shared, so not to be changed
	Cut    bool      // the line was longer than what is kept of it here
	Lost   uint64    // only where lines are followed: how many were lost just before this one, as the follower was too slow
}

// Format is how a line is written for people or programs to read.
type Format uint8

const (
	// Text is `HH:MM:SS source stdout | text`, in local time, without what a terminal would obey.
	Text Format = iota
	// JSON is one object a line: time, source, stream, line, and cut where that is true. What a terminal would obey is escaped; bytes that are no UTF-8 are replaced.
	JSON
)

// Append appends the line in the given format to dst, a newline at its end.
func (l Line) Append(dst []byte, format Format, source string) []byte {
	dst = appendHead(dst, format, source, l.Stream, l.At)
	return appendBody(dst, format, l.Text, l.Cut)
}

// appendHead appends what stands before the text; it is the same for all lines that were read at once.
func appendHead(dst []byte, format Format, source, stream string, at time.Time) []byte {
	if format == JSON {
		dst = appendJSONTime(append(dst, `{"time":`...), at)
		dst = appendJSONString(append(dst, `,"source":`...), []byte(source))
		dst = append(append(dst, `,"stream":"`...), stream...)
		return append(dst, `","line":`...)
	}
	dst = at.Local().AppendFormat(dst, time.TimeOnly)
	dst = append(append(dst, ' '), source...)
	dst = append(append(dst, ' '), stream...)
	return append(dst, " | "...)
}

// appendBody appends the text and what follows it.
func appendBody(dst []byte, format Format, text []byte, cut bool) []byte {
	if format == JSON {
		dst = appendJSONString(dst, text)
		if cut {
			dst = append(dst, `,"cut":true`...)
		}
		return append(dst, "}\n"...)
	}
	return appendMark(plain.AppendLine(dst, text), cut)
}

// appendPlain appends the text as it is, with the mark where it was cut, and a newline.
func appendPlain(dst, text []byte, cut bool) []byte {
	return appendMark(append(dst, text...), cut)
}

func appendMark(dst []byte, cut bool) []byte {
	if cut {
		dst = append(dst, CutMark...)
	}
	return append(dst, '\n')
}

// countLines says how many ends of lines there are in b.
func countLines(b []byte) int { return bytes.Count(b, []byte{'\n'}) }

// copyLine gives the line a text of its own.
func copyLine(l Line) Line {
	l.Text = slices.Clone(l.Text)
	return l
}
