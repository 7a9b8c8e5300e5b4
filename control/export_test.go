package control

import "time"

// SetTimes makes a listener ask sooner whether the other end is alive.
func SetTimes(l *Listener, pingEvery, deadAfter time.Duration) {
	l.pingEvery, l.deadAfter = pingEvery, deadAfter
}
