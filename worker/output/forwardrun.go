package output

import (
	"bytes"
	"context"
	"strconv"
	"time"
)

const (
	sliceBytes   = 64 << 10         // about what is written to standard error at once
	mentionEvery = 10 * time.Second // where lines are lost all the time
)

// run writes until ctx ends, and then what is left.
func (f *Forwarder) run(ctx context.Context) {
	f.mu.Lock()
	f.enter(forwardRunning)
	f.mu.Unlock()
	var spare []byte
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-f.wake:
			spare = f.flush(spare)
		}
	}
	for !f.finished() {
		spare = f.flush(spare)
	}
}

// finished says whether nothing waits any more, lines and mentions. From then on Write writes by itself.
func (f *Forwarder) finished() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) > 0 || (f.untold+f.fresh > 0 && !f.failed) {
		return f.phase == forwardStuck
	}
	f.enter(forwardEnded)
	return true
}

// abandon makes Write drop what it gets, when run has not come to its end in time.
func (f *Forwarder) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase != forwardEnded {
		f.phase = forwardStuck
	}
}

// enter is called with f locked.
func (f *Forwarder) enter(phase forwardPhase) {
	if f.phase != forwardStuck {
		f.phase = phase
	}
}

// flush writes all that waits. spare becomes the next pending; what was written is returned as the next spare.
func (f *Forwarder) flush(spare []byte) []byte {
	data := f.takeAll(spare)
	for rest := data; len(rest) > 0; {
		n := sliceEnd(rest)
		f.writeSlice(rest[:n])
		rest = rest[n:]
	}
	f.mu.Lock()
	f.since = time.Time{}
	f.mu.Unlock()
	if cap(data) > sliceBytes && len(data) < cap(data)/8 {
		return nil // a burst is over
	}
	return data[:0]
}

// takeAll exchanges the buffers.
func (f *Forwarder) takeAll(spare []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	data := f.pending
	f.pending = spare
	f.round++
	f.since = time.Now()
	if f.roomMade != nil {
		close(f.roomMade)
		f.roomMade = nil
	}
	return f.mention(data)
}

// mention adds a line about those that were lost, once none were lost any more. f is locked.
func (f *Forwarder) mention(data []byte) []byte {
	calm := f.fresh == 0 || time.Since(f.mentioned) > mentionEvery
	f.untold, f.fresh = f.untold+f.fresh, 0
	switch {
	case f.untold == 0 || f.failed:
	case calm:
		data = f.appendMention(data, f.untold)
		f.untold, f.mentioned = 0, time.Now()
	default:
		f.rouse() // look again when this batch is written
	}
	return data
}

func (f *Forwarder) appendMention(dst []byte, lines int) []byte {
	const what = "lines of crawlers were lost: standard error is too slow"
	if f.format == JSON {
		dst = appendJSONTime(append(dst, `{"time":`...), time.Now())
		dst = append(dst, `,"level":"WARN","msg":"`+what+`","lines":`...)
		return append(strconv.AppendInt(dst, int64(lines), 10), "}\n"...)
	}
	dst = time.Now().AppendFormat(dst, time.TimeOnly)
	dst = append(dst, " WRN "+what+" lines="...)
	return append(strconv.AppendInt(dst, int64(lines), 10), '\n')
}

// writeSlice writes whole lines. What an error keeps from being written is lost.
func (f *Forwarder) writeSlice(b []byte) {
	if f.isTorn() {
		_, _ = f.w.Write([]byte{'\n'})
	}
	n, err := f.w.Write(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = time.Now()
	f.torn = n > 0 && n < len(b) && b[n-1] != '\n'
	if err != nil {
		f.lose(nil, countLines(b[min(n, len(b)):]))
	} else if f.failed {
		f.rouse() // to mention what was lost
	}
	f.failed = err != nil
}

func (f *Forwarder) isTorn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.torn
}

// sliceEnd returns where to end the first write of b, which holds whole lines: at the end of a line, about sliceBytes away.
func sliceEnd(b []byte) int {
	if len(b) <= sliceBytes {
		return len(b)
	}
	if end := bytes.LastIndexByte(b[:sliceBytes], '\n'); end >= 0 {
		return end + 1
	}
	if end := bytes.IndexByte(b[sliceBytes:], '\n'); end >= 0 {
		return sliceBytes + end + 1
	}
	return len(b)
}
