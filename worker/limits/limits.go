package limits

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"crawlkeeper/worker/process"
)

// The names of the limits.
const (
	Memory     = "memory"
	Processes  = "processes"
	OpenFiles  = "open_files"
	TempSize   = "temp_size"
	OutputRate = "output_rate"
	MaxAge     = "max_age"
)

// Limits say what one tree may use. Zero is no limit.
type Limits struct {
	Memory     int64 // bytes
	Processes  int   // and threads
	OpenFiles  int
	TempSize   int64 // bytes
	OutputRate int64 // bytes a second
	MaxAge     time.Duration
}

// Counted tells that a census is needed to hold them.
func (l Limits) Counted() bool { return l.Memory > 0 || l.Processes > 0 || l.OpenFiles > 0 }

// Tree is a crawler that runs, with what it started.
type Tree struct {
	Source  string
	Process string // the id of its process
	Pid     int
	Started time.Time
	Limits  Limits
	Temp    string // its directory for temporary files
	Printed uint64 // bytes that the source has printed, in all its processes; they only grow
}

// Breach is a tree that is over a limit.
type Breach struct {
	Source, Process string
	Limit           string // which one
	Why             string // in words: which, how much of how much, and who
	Overdue         bool   // of max_age: it is not to be waited for any more
}

// Urgent tells that the tree harms the machine, and gets little time to end.
func (b Breach) Urgent() bool { return b.Limit == Memory || b.Limit == Processes }

// Census is what the trees use now. A process.Census is one.
type Census interface {
	Of(pid int) process.Usage
	Pids(pid int) []int
	Members(pid int) []process.Entry
}

// spread is the part of max_age that is added at most, so that crawlers that were started together do not end together.
const spread = 10

// dueAge is the age at which a process is to be started anew: never less than the age, which may be the longest that can be written.
func dueAge(id string, age time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	more := time.Duration(float64(age/spread) * (float64(h.Sum32()) / (1 << 32)))
	return age + min(more, math.MaxInt64-age)
}

// longestGrace bounds how long one that is of age may go on with its run.
const longestGrace = 10 * time.Minute

func grace(age time.Duration) time.Duration { return min(age, longestGrace) }

// Aged lists the trees that are of age, those of them first that are not to be waited for any more.
func Aged(now time.Time, trees []Tree) []Breach {
	var overdue, due []Breach
	for _, t := range trees {
		most := t.Limits.MaxAge
		age, from := now.Sub(t.Started), dueAge(t.Process, most)
		if most == 0 || age < from {
			continue
		}
		b := Breach{Source: t.Source, Process: t.Process, Limit: MaxAge, Why: fmt.Sprintf("%s: %s of %s", MaxAge, age.Round(time.Second), most)}
		if b.Overdue = age-from >= grace(most); b.Overdue {
			overdue = append(overdue, b)
		} else {
			due = append(due, b)
		}
	}
	return append(overdue, due...)
}

// bytesOf writes a number of bytes for people.
func bytesOf(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n < unit.bytes {
			continue
		}
		v := float64(n) / float64(unit.bytes)
		digits := 0
		if v < 10 {
			digits = 1
		}
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', digits, 64), ".0") + " " + unit.name
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// longestName bounds the names of programs and files, which are the crawler's to choose.
const longestName = 80

// shown makes a name fit to be written anywhere.
func shown(name string) string {
	runes := []rune(strings.ToValidUTF8(name, "?"))
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '?'
		}
	}
	if len(runes) > longestName {
		return string(runes[:longestName]) + "…"
	}
	return string(runes)
}
