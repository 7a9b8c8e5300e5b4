package configs

import (
	"fmt"
	"strconv"
	"strings"
)

// RlimitNames are the resource limits that an adapter may set: those of setrlimit(2), less the two that may bear the numbers of
// process trees.
var RlimitNames = []string{"as", "core", "cpu", "data", "fsize", "memlock", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"}

// Rlimit is a resource limit, soft and hard.
type Rlimit struct{ Soft, Hard uint64 }

// ParseRlimit reads "1024:4096", one number for both, or "unlimited" for either.
func ParseRlimit(text string) (Rlimit, error) {
	soft, hard, both := strings.Cut(text, ":")
	if !both {
		hard = soft
	}
	var l Rlimit
	for _, part := range []struct {
		text string
		into *uint64
	}{{soft, &l.Soft}, {hard, &l.Hard}} {
		if part.text == "unlimited" {
			*part.into = ^uint64(0)
			continue
		}
		n, err := strconv.ParseUint(part.text, 10, 64)
		if err != nil {
			return Rlimit{}, fmt.Errorf("must be soft:hard, as in 1024:4096, one number for both, or unlimited, not %s", quote(text))
		}
		*part.into = n
	}
	if l.Soft > l.Hard {
		return Rlimit{}, fmt.Errorf("must not have a soft limit above the hard one, as %s has", quote(text))
	}
	return l, nil
}

// UmaskBits reads the umask; nil where it is as the manager has it.
func (a Adapter) UmaskBits() (*int, error) {
	if a.Umask == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(a.Umask, 8, 16)
	if err != nil || n > 0o777 {
		return nil, fmt.Errorf("umask %s is not three octal digits", quote(a.Umask))
	}
	bits := int(n)
	return &bits, nil
}
