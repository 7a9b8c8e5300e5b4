package output

import "sync/atomic"

// budget is a number of bytes that many share. Any goroutine may use it.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes, and says false where they are not to be had.
func (b *budget) take(n int) bool {
	if b.used.Add(int64(n)) > b.limit {
		b.used.Add(int64(-n))
		return false
	}
	return true
}

// give returns n bytes that take reserved.
func (b *budget) give(n int) { b.used.Add(int64(-n)) }
