package output

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// A place that works but falls behind holds a reader back, for a moment; one that is stuck does not.
func TestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewForwarder(io.Discard, Text)
		f.phase = forwardRunning
		o := &Output{}
		p := &pipe{stream: &Stream{out: o, forward: f, draining: make(chan struct{})}}
		if p.hold() {
			t.Error("held although there is room")
		}
		f.push(o, batch{data: bytes.Repeat([]byte("x\n"), shareBytes/4), lines: shareBytes / 4})

		start := time.Now()
		for p.hold() {
			p.awaitRoom(p.stream.draining)
		}
		if took := time.Since(start); took != pauseLimit {
			t.Errorf("held for %v", took)
		}
		other := &pipe{stream: &Stream{out: &Output{}, forward: f}}
		if other.hold() {
			t.Error("another source is held for this one's lines")
		}

		if !p.hold() {
			t.Error("the next read is not held")
		}
		start = time.Now()
		f.takeAll(nil)
		p.awaitRoom(p.stream.draining)
		if took := time.Since(start); took != 0 || p.hold() {
			t.Errorf("held for %v although there is room", took)
		}

		f.push(o, batch{data: bytes.Repeat([]byte("x\n"), shareBytes/4), lines: shareBytes / 4})
		time.Sleep(stalledAfter + time.Millisecond) // the write that takeAll began does not come back
		if p.hold() {
			t.Error("held for a place that is stuck")
		}
		close(p.stream.draining)
	})
}

// While every writer hangs, no reader waits for a log file, and one free writer is enough to wait for.
func TestHoldForLogFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := newFiles(nil)
		f := set.acquire(FileOptions{Path: "never written"})
		for i := range set.writing {
			set.writing[i].Store(int64(time.Since(set.epoch)))
		}
		time.Sleep(stalledAfter + time.Millisecond)
		f.push(&Output{}, batch{data: make([]byte, pendingBytes), lines: 1})
		if f.room() != nil {
			t.Error("waits for writers that are stuck")
		}
		set.writing[0].Store(0)
		if f.room() == nil {
			t.Error("does not wait for a writer that is free")
		}
	})
}
