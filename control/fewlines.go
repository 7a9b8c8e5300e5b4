package control

import (
	"time"

	"golang.org/x/time/rate"
)

// FewLines lets a few log lines of a storm pass and counts the others. One goroutine uses it.
type FewLines struct {
	limit    *rate.Limiter
	unlogged int // since the last line that passed
}

// NewFewLines lets five lines pass at once, and then one every 10 s.
func NewFewLines() *FewLines { return &FewLines{limit: rate.NewLimiter(rate.Every(10*time.Second), 5)} }

// Pass tells whether a line may be written now, and how many were not since the last one.
func (f *FewLines) Pass() (unlogged int, ok bool) {
	if !f.limit.Allow() {
		f.unlogged++
		return 0, false
	}
	unlogged, f.unlogged = f.unlogged, 0
	return unlogged, true
}
