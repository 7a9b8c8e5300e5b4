package manager

import "time"

// rhythm says when regular work is due: at whole multiples of its period after one moment. So what all loops do regularly falls
// together, and a manager at rest wakes up once a second, not once for each of them. The zero value has no such moment: its
// periods begin now.
type rhythm struct{ began time.Time }

// next is how long it is until a period ends. It is more than nothing.
func (r rhythm) next(period time.Duration) time.Duration {
	if r.began.IsZero() {
		return period
	}
	return period - time.Since(r.began)%period
}
