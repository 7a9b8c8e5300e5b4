package main

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// How much garbage there may be for each byte in use, in percent. A manager at rest makes little garbage, so it costs next to no
// processor time to stay smaller than with Go's 100; while thousands of crawlers start, collecting so often costs a fifth of the start.
const (
	gcCalm = 20
	gcBusy = 200
)

// pace sets that, unless the operator has set GOGC, and gives back to the system what is needed no more: the runtime itself keeps it
// for a while, in the hope that it is needed again soon.
func (a *app) pace(busy bool) {
	percent := gcCalm
	if busy {
		percent = gcBusy
	}
	if a.getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if !busy {
		debug.FreeOSMemory()
		releaseProgram()
	}
}

// withoutProfile ends the notes of where memory is allocated, which are 1.5 MB. They are for who can ask for them.
var withoutProfile = sync.OnceFunc(func() { runtime.MemProfileRate = 0 })
