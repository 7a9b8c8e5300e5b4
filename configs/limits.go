package configs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits say what a crawler may use, with everything that it started. Zero is no limit. Who goes beyond one is ended.
type Limits struct {
	// Memory of the whole tree; pages that its processes share count once. 0 is no limit.
	Memory Size `yaml:"memory"`
	// Share of the processors, as in 0.5 or 2 (two whole ones); slows the tree down and ends nothing. Needs a cgroup v2 with the controller cpu, else crawlers do not start. 0 is no limit.
	CPU float64 `yaml:"cpu"`
	// Numbers of the only processors that the tree may use, as in 0-2,5. Empty: as the manager.
	CPUs string `yaml:"cpus"`
	// Processes of the whole tree, threads included. 0 is no limit.
	Processes int `yaml:"processes"`
	// Open files of the whole tree; also the most that one process of it can open. 0 is no limit.
	OpenFiles int `yaml:"open_files"`
	// What the crawler's TMPDIR may hold. 0 is no limit.
	TempSize Size `yaml:"temp_size"`
	// A crawler of this age is started anew, between two runs where it can be; up to a tenth is added so that not all are at once. 0 is never.
	MaxAge time.Duration `yaml:"max_age"`
	// What the crawler may print in a second, on average over a minute. 0 is no limit.
	OutputRate Size `yaml:"output_rate"`
}

// maxCPU is the highest number of a processor that the kernel's masks have room for here.
const maxCPU = 1023

// CPUList reads the numbers of the processors; nil is all.
func (l Limits) CPUList() ([]int, error) {
	if l.CPUs == "" {
		return nil, nil
	}
	var list []int
	for part := range strings.SplitSeq(l.CPUs, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 16)
		to, err2 := strconv.ParseUint(high, 10, 16)
		if err != nil || err2 != nil || from > to || to > maxCPU {
			return nil, fmt.Errorf("must be numbers of processors and ranges of them, as in 0-2,5, not %s", quote(l.CPUs))
		}
		for n := int(from); n <= int(to); n++ {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Held are those limits that a process has from its start on: another value needs another process.
func (l Limits) Held() Limits {
	l.TempSize, l.MaxAge, l.OutputRate = 0, 0, 0
	return l
}

const (
	leastMemory = 1 << 20
	leastShare  = 0.01
	leastFiles  = 16
	leastAge    = time.Minute
)

func (k *checker) limits(a Adapter, key string) {
	l := a.Limits
	atLeast := func(value, least int64, name, shown string) {
		k.require(value == 0 || value >= least, key+"."+name, "must be at least %s; 0 is no limit", shown)
	}
	atLeast(int64(l.Memory), leastMemory, "memory", "1MiB")
	atLeast(int64(l.Processes), 1, "processes", "1")
	atLeast(int64(l.OpenFiles), leastFiles, "open_files", "16")
	atLeast(int64(l.TempSize), 1, "temp_size", "1B")
	atLeast(int64(l.MaxAge), int64(leastAge), "max_age", leastAge.String())
	atLeast(int64(l.OutputRate), 1, "output_rate", "1B")
	k.require(l.CPU == 0 || l.CPU >= leastShare, key+".cpu", "must be at least %v; 0 is no limit", leastShare)
	_, err := l.CPUList()
	k.err(err, key+".cpus")
	silent := slices.Contains(a.Output.To, OutputDiscard) || slices.Contains(a.Output.To, OutputInherit)
	k.require(l.OutputRate == 0 || !silent, key+".output_rate", "cannot be held with output discard or inherit, which the manager does not see")
}
