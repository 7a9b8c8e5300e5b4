package configs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The places to which a crawler's output can go, for [Output.To].
const (
	OutputForward = "forward"
	OutputInherit = "inherit"
	OutputFile    = "file"
	OutputDiscard = "discard"
)

// Output says what becomes of a crawler's standard output and standard error. In the file it is one word, a list of words, or a mapping.
type Output struct {
	// forward (to the manager's standard error, with source and stream), inherit (the manager's own, untouched), file (one for each source, rotated), discard, or the list [forward, file].
	To Targets `yaml:"to"`
	// Folder of the log files; needed with file.
	Dir string `yaml:"dir"`
	// A log file is rotated when it has grown to this size, at the end of a line.
	MaxSize Size `yaml:"max_size"`
	// A log file is also rotated at this age; 0 is never.
	MaxAge time.Duration `yaml:"max_age"`
	// So many rotated log files are kept for each source, beside the one that is written.
	Keep int `yaml:"keep"`
	// Compress rotated log files.
	Compress bool `yaml:"compress"`
}

// Targets is a list of places to which output goes. In the file it may also be one word.
type Targets []string

// Size is a number of bytes. In the file it is a number with a unit, as in 10MiB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes Size
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1},
}

// String writes the size with the largest unit that divides it.
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	for _, unit := range sizeUnits {
		if s%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s/unit.bytes), unit.name)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText writes the size as [Size.String] does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

var errNoSize = errors.New("must be a size such as 10MiB, 512KiB or 1GB")

// parseSize reads a whole number of bytes, with or without a unit.
func parseSize(text string) (Size, error) {
	digits, unit := text, Size(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, errNoSize
	}
	if n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return 0, errors.New("is too large")
	}
	return Size(n) * unit, nil
}
