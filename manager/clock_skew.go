//go:build clockskew

package manager

import (
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// A program with the tag clockskew takes what the file in this variable says for how far its wall clock was set: "90s", "-2h".
// It is for tests, which cannot set the clock of their machine.
func init() { builtInSkew = skewFrom(os.Getenv("CLOCK_SKEW_FILE")) }

func skewFrom(file string) func() time.Duration {
	var last atomic.Int64 // stays where the file cannot be read
	return func() time.Duration {
		text, err := os.ReadFile(file)
		if d, errParse := time.ParseDuration(strings.TrimSpace(string(text))); err == nil && errParse == nil {
			last.Store(int64(d))
		}
		return time.Duration(last.Load())
	}
}
