package worker

import "time"

// Delay says how long a worker waits before it starts a crawler again that ended although nobody asked for it.
type Delay struct {
	Min, Max time.Duration
	Stable   time.Duration // a crawler that was up this long starts again at Min
	Jitter   float64       // up to this share is added
}

// After is the pause, without jitter, after a process that was up for ran, when the last pause was last (0: none since a
// stable run or a command).
func (d Delay) After(last, ran time.Duration) time.Duration {
	if last == 0 || ran >= d.Stable {
		return d.Min
	}
	return min(2*last, d.Max)
}

// WithJitter adds its share to a pause; random is in [0, 1).
func (d Delay) WithJitter(pause time.Duration, random float64) time.Duration {
	return pause + time.Duration(float64(pause)*d.Jitter*random)
}
