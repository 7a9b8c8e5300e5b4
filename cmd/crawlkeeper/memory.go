package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// How much garbage there may be for each byte in use, in percent. A manager at rest makes little garbage, so it costs next to no
// processor time to stay smaller than with Go's 100; while thousands of crawlers start, collecting so often costs up to a tenth of
// the start. More than 100 saves a twentieth, and the start needs a tenth more memory.
const (
	gcCalm = 50
	gcBusy = 100
)

// trimEvery is how often a calm manager looks how much memory it has.
const trimEvery = 5 * time.Second

// footprint keeps the manager's memory small while little happens.
type footprint struct {
	fixed bool // the operator has set GOGC: then the pace of collections is theirs
	calm  atomic.Bool
}

// pace is told when many crawlers start or end, and when it is calm again.
func (f *footprint) pace(busy bool) {
	percent := gcCalm
	if busy {
		percent = gcBusy
	}
	if !f.fixed {
		debug.SetGCPercent(percent)
	}
	f.calm.Store(!busy)
}

// run gives back to the system what a calm manager needs no more: the runtime itself keeps it for a while, in the hope that it is
// needed again soon.
func (f *footprint) run(ctx context.Context) {
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	var t trim
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !t.due(f.calm.Load(), heldMemory()) {
				continue
			}
			if !f.fixed {
				debug.FreeOSMemory()
			}
			if t.least == 0 { // what only the start, or so many others, needed
				releaseProgram()
			}
			t.least = heldMemory()
		}
	}
}

// trim knows when it is worth its price, which is that of collecting garbage once.
type trim struct {
	least uint64 // bytes that were held after the last one since it became calm; 0 before the first
}

func (t *trim) due(calm bool, held uint64) bool {
	if !calm {
		t.least = 0
		return false
	}
	return held > t.least+t.least/10
}

// heldMemory is how many bytes the heap and the stacks have of the system.
func heldMemory() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(samples)
	var sum uint64
	for _, s := range samples {
		sum += s.Value.Uint64()
	}
	return sum
}

// withoutProfile ends the notes of where memory is allocated, which are 1.5 MB. They are for who can ask for them.
var withoutProfile = sync.OnceFunc(func() { runtime.MemProfileRate = 0 })
