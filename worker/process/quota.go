package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Quota is what the kernel holds a tree to where the tree has a cgroup with the controllers for it. Zero is no limit.
// Elsewhere somebody has to watch the tree; a share of the processor cannot be had there, and the start fails.
type Quota struct {
	Memory int64   // bytes; at more of them the kernel kills the whole tree
	CPU    float64 // of one processor
	Tasks  int     // processes and threads. One more can be had, so that who counts sees that there are too many
}

// controllers are those that a Quota and a list of processors need.
var controllers = []string{"cpu", "cpuset", "memory", "pids"}

// cpuPeriod is that of cpu.max, in microseconds.
const cpuPeriod = 100_000

// holding says which controllers trees have here.
type holding struct {
	once sync.Once
	on   []string
	why  string // not the others
}

// holds tells whether trees have a controller, and if not why. The first call switches on what can be had; to be called
// only where somebody wants it.
func (c *cgroups) holds(controller string) (bool, string) {
	if c.failed.Load() {
		return false, "processes cannot be put into cgroups here"
	}
	c.holding.once.Do(c.enable)
	return slices.Contains(c.holding.on, controller), c.holding.why
}

// prospects tells which controllers could be had, without doing anything.
func (c *cgroups) prospects() ([]string, string) {
	offered := c.words(c.base, "cgroup.controllers")
	given := c.words(c.base, "cgroup.subtree_control")
	wanted := slices.DeleteFunc(slices.Clone(controllers), func(name string) bool { return !slices.Contains(offered, name) })
	if len(wanted) == 0 {
		return nil, "no controllers are delegated to it"
	}
	missing := slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(given, name) })
	if missing && c.crowded() {
		return slices.DeleteFunc(wanted, func(name string) bool { return !slices.Contains(given, name) }), errCrowded.Error()
	}
	return wanted, missed(wanted)
}

var errCrowded = errors.New("other processes live in it, which forbids controllers below it; give the manager a cgroup of its own (Delegate=yes)")

func missed(on []string) string {
	left := slices.DeleteFunc(slices.Clone(controllers), func(name string) bool { return slices.Contains(on, name) })
	if len(left) == 0 {
		return ""
	}
	return "it has no controller " + strings.Join(left, ", ")
}

// enable switches on, below our own cgroup and below the directory of our trees, what is offered. A cgroup that hands
// controllers on may hold no processes: where we are alone in ours, we move into one below it.
func (c *cgroups) enable() {
	h := &c.holding
	wanted, why := c.prospects()
	if len(wanted) == 0 {
		h.why = why
		return
	}
	if err := c.mkdir(c.dir); err != nil {
		h.why = err.Error()
		return
	}
	var failed error
	for _, name := range wanted {
		err := c.hand(c.base, name)
		if errors.Is(err, syscall.EBUSY) {
			if err = c.stepAside(); err == nil {
				err = c.hand(c.base, name)
			}
		}
		if err == nil {
			err = c.hand(c.dir, name)
		}
		failed = errors.Join(failed, err)
	}
	given := c.words(c.dir, "cgroup.subtree_control")
	h.on = slices.DeleteFunc(wanted, func(name string) bool { return !slices.Contains(given, name) })
	h.why = why
	if failed != nil {
		h.why = failed.Error()
	}
}

// hand gives a controller to what is below a directory.
func (c *cgroups) hand(dir, name string) error {
	if slices.Contains(c.words(dir, "cgroup.subtree_control"), name) {
		return nil
	}
	return c.write(filepath.Join(dir, "cgroup.subtree_control"), "+"+name)
}

// stepAside moves this process into a cgroup below its own. The directory stays: we live in it until the end.
func (c *cgroups) stepAside() error {
	if c.crowded() {
		return errCrowded
	}
	aside := c.dir + "-manager"
	if err := c.mkdir(aside); err != nil {
		return err
	}
	return c.write(filepath.Join(aside, "cgroup.procs"), strconv.Itoa(os.Getpid()))
}

// crowded tells whether others than we live in our cgroup. The root of all may hold processes; it has no type.
func (c *cgroups) crowded() bool {
	if !exists(filepath.Join(c.base, "cgroup.type")) {
		return false
	}
	self := strconv.Itoa(os.Getpid())
	return slices.ContainsFunc(c.words(c.base, "cgroup.procs"), func(pid string) bool { return pid != self })
}

func (c *cgroups) words(dir, file string) []string {
	data, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(data))
}

// writeControl writes to a file that the kernel has made.
func writeControl(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// refuse says why a start with this quota cannot be; "" where it can.
func (s *Spawner) refuse(q Quota) string {
	if q.CPU == 0 {
		return ""
	}
	why := "cgroups are not used"
	for _, text := range s.ways.Without {
		if rest, ok := strings.CutPrefix(text, string(ByCgroup)+": "); ok {
			why = rest
		}
	}
	if s.cgroups != nil {
		ok, missing := s.cgroups.holds("cpu")
		if ok {
			return ""
		}
		why = missing
	}
	return fmt.Sprintf("a share of the processor needs a cgroup v2 with the controller cpu: %s (take limits.cpu away, or use cpus)", why)
}

// hold writes the limits of a tree. What fails is left to those who watch, but for the share of the processor.
func (c *cgroups) hold(g *cgroup, q Quota, cpus []int) (left, err error) {
	set := func(controller, file, text string) error {
		if ok, why := c.holds(controller); !ok {
			return errors.New(why)
		}
		return c.write(filepath.Join(g.dir, file), text)
	}
	if q.Memory > 0 {
		if left = set("memory", "memory.max", strconv.FormatInt(q.Memory, 10)); left == nil {
			left = set("memory", "memory.oom.group", "1")
			if exists(filepath.Join(g.dir, "memory.swap.max")) { // else a tree that is over its limit would swap without end
				left = errors.Join(left, set("memory", "memory.swap.max", "0"))
			}
		}
	}
	if q.Tasks > 0 {
		left = errors.Join(left, set("pids", "pids.max", strconv.Itoa(q.Tasks+1)))
	}
	if len(cpus) > 0 {
		left = errors.Join(left, set("cpuset", "cpuset.cpus", listOf(cpus)))
	}
	if q.CPU > 0 {
		share := max(1000, int64(math.Round(q.CPU*cpuPeriod)))
		err = set("cpu", "cpu.max", fmt.Sprintf("%d %d", share, cpuPeriod))
	}
	return left, err
}

func listOf(cpus []int) string {
	text := make([]string, len(cpus))
	for i, n := range cpus {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}

// ranOut tells whether the kernel killed in the cgroup as it was full itself, not the machine.
func (g *cgroup) ranOut() bool { return g.event("memory.events", "oom") > 0 }

// pinned calls fork while this thread may use these processors only, which its child inherits. It is the forking thread, to
// which no other goroutine comes. An error says that fork was not called.
func pinned(cpus []int, fork func()) error {
	if len(cpus) == 0 {
		fork()
		return nil
	}
	var own, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		return fmt.Errorf("read the processors of the manager: %w", err)
	}
	for _, n := range cpus {
		set.Set(n)
	}
	if unix.SchedSetaffinity(0, &set) != nil {
		return fmt.Errorf("none of the processors %s can be used here", listOf(cpus))
	}
	fork()
	_ = unix.SchedSetaffinity(0, &own) // what was allowed a moment ago
	return nil
}
