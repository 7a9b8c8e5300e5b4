package control

import "time"

// backoff is the wait before the next try: minBackoff, doubling to maxBackoff.
type backoff struct{ next time.Duration }

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// step returns the wait before the next try and makes the one after it longer.
func (b *backoff) step() time.Duration {
	d := min(max(b.next, minBackoff), maxBackoff)
	b.next = 2 * d
	return d
}

// reset makes the next wait the shortest one.
func (b *backoff) reset() { b.next = 0 }
