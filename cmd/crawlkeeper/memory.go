package main

import "runtime/debug"

// gcPercent is how much garbage there may be for each byte in use, in percent. A manager at rest makes little garbage, so it costs
// next to no processor time to stay smaller than with Go's 100.
const gcPercent = 50

// keepSmall sets that, unless the operator has set GOGC.
func (a *app) keepSmall() {
	if a.getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
