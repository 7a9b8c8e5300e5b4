package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroups is our directory of cgroup v2, below the one that we are in, with a directory for each tree.
type cgroups struct {
	base   string
	dir    string
	failed atomic.Bool // a fork into one was refused: it is not tried again

	holding holding
	spares  spares[struct{}, *cgroup] // in which nothing lives

	mu   sync.Mutex
	ours map[string]bool // directories that are a living tree's or wait for one; guarded by mu
	last uint64          // of the names that were given; guarded by mu

	// What the kernel answers to; tests put themselves in its place.
	makeDir func(dir string) error
	write   func(file, text string) error
}

const cgroupName = "crawlkeeper-"

// newCgroups tests whether directories can be made and processes put into them.
func newCgroups(prefix uint32) (*cgroups, error) {
	base, err := OwnCgroup("")
	if err != nil {
		return nil, err
	}
	c := cgroupsIn(base, prefix)
	if err := unix.Faccessat(unix.AT_FDCWD, filepath.Join(base, "cgroup.procs"), unix.W_OK, unix.AT_EACCESS); err != nil {
		return nil, fmt.Errorf("it cannot be written: %w", err)
	}
	if err := c.mkdir(c.dir); err != nil {
		return nil, fmt.Errorf("it cannot be written: %w", err)
	}
	defer os.Remove(c.dir) // made again with the first tree
	if kind, err := os.ReadFile(filepath.Join(c.dir, "cgroup.type")); err != nil || string(kind) != "domain\n" {
		return nil, errors.New("it is threaded")
	}
	if _, err := os.Stat(filepath.Join(c.dir, "cgroup.kill")); err != nil {
		return nil, errors.New("it has no cgroup.kill (Linux 5.14)")
	}
	return c, nil
}

func cgroupsIn(base string, prefix uint32) *cgroups {
	return &cgroups{
		base: base, dir: filepath.Join(base, cgroupDir(prefix)),
		makeDir: func(dir string) error { return os.Mkdir(dir, 0o755) }, write: writeControl,
	}
}

// mkdir makes a directory that may be there already.
func (c *cgroups) mkdir(dir string) error {
	if err := c.makeDir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func cgroupDir(prefix uint32) string { return fmt.Sprintf("%s%08x", cgroupName, prefix) }

// make makes the directory of a tree, or takes one that another tree needs no more: to remove a cgroup costs the kernel more than all
// else about an end, and it does that in the background, where it holds up those that are made.
func (c *cgroups) make() (*cgroup, error) {
	if g, ok := c.spares.take(struct{}{}); ok {
		if g.again = true; g.open() == nil {
			return g, nil
		}
		c.drop(g)
	}
	g, err := c.makeNew()
	if err != nil {
		return nil, err
	}
	if err := g.open(); err != nil {
		c.drop(g)
		return nil, err
	}
	return g, nil
}

// makeNew makes a directory under a name that none has: also what a manager before us left may be there still.
func (c *cgroups) makeNew() (*cgroup, error) {
	for {
		g := &cgroup{dir: c.name()}
		err := c.makeDir(g.dir)
		if errors.Is(err, fs.ErrNotExist) {
			if err = c.mkdir(c.dir); err == nil {
				err = c.makeDir(g.dir)
			}
		}
		if err == nil {
			return g, nil
		}
		c.disown(g)
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

// name gives out a directory, which is ours from before it is made until disown.
func (c *cgroups) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	dir := filepath.Join(c.dir, strconv.FormatUint(c.last, 16))
	if c.ours == nil {
		c.ours = map[string]bool{}
	}
	c.ours[dir] = true
	return dir
}

func (c *cgroups) disown(g *cgroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ours, g.dir)
}

// isOurs tells whether a directory is a living tree's, or waits for one.
func (c *cgroups) isOurs(dir string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ours[dir]
}

// drop removes a cgroup that no tree has, with what is below it. False: it could not be removed, and is left over from here on.
func (c *cgroups) drop(g *cgroup) bool {
	g.remove()
	c.disown(g)
	return !exists(g.dir)
}

// park keeps a cgroup in which nothing lives for another tree, if it is as it was made. Where there is a memory controller it has
// counters that speak of the tree that it had. Where cgroup.kill was written, Linux since 6.12 kills what is forked into it later: a
// fork compares how often that was done here and in the cgroup of the parent (cgroup_post_fork).
func (c *cgroups) park(g *cgroup) bool {
	return g.plain && g.single() && !exists(filepath.Join(g.dir, "memory.events")) && c.spares.put(struct{}{}, g, c.dropSpares)
}

// dropSpares removes the cgroups that wait for a tree. They are in a file system of the kernel's, which does not hang.
func (c *cgroups) dropSpares() {
	c.spares.drain(func(spares []*cgroup) {
		if len(spares) > 0 {
			// For each cgroup that goes the kernel looks for it in the list of its siblings whose times it has yet to add up,
			// which it does when the times of all are read.
			_, _ = os.ReadFile(filepath.Join(c.dir, "cpu.stat"))
		}
		for _, g := range spares {
			c.drop(g)
		}
	})
}

// close removes our directory, if no tree is left in it.
func (c *cgroups) close() { _ = os.Remove(c.dir) }

// lost ends what is left in the directories of the prefixes and removes them.
func (c *cgroups) lost(prefixes []uint32) []Survivor {
	var swept []Survivor
	for _, p := range prefixes {
		g := &cgroup{dir: filepath.Join(c.base, cgroupDir(p))}
		for _, m := range g.members() {
			swept = append(swept, Survivor{m.pid, m.stat.name})
		}
		g.kill()
		g.remove()
	}
	return swept
}

// cgroup is the directory of one tree.
type cgroup struct {
	dir   string
	fd    int  // open until the fork
	plain bool // it is as it was made: it never had limits, and nothing in it was killed at once. See park
	again bool // it was another tree's before
}

func (g *cgroup) open() (err error) {
	g.fd, err = noEINTR(func() (int, error) { return unix.Open(g.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	return err
}

func (g *cgroup) forked() { unix.Close(g.fd) }

// single tells whether there is no cgroup below it.
func (g *cgroup) single() bool {
	var st unix.Stat_t
	return unix.Stat(g.dir, &st) == nil && st.Nlink == 2
}

// populated tells whether any process lives in it or below it; zombies do not count.
func (g *cgroup) populated() bool {
	return g.event("cgroup.events", "populated") == 1
}

// still tells whether surely nothing lives in it or below it, and it is not frozen.
func (g *cgroup) still() bool {
	data, err := slurp(filepath.Join(g.dir, "cgroup.events"), nil)
	if err != nil {
		return false
	}
	populated, read := valueOf(data, "populated")
	frozen, _ := valueOf(data, "frozen")
	return read && populated == 0 && frozen == 0
}

// oomKills is how often the kernel killed in it for want of memory; 0 where the memory controller is not here.
func (g *cgroup) oomKills() uint64 { return g.event("memory.events", "oom_kill") }

func (g *cgroup) event(file, key string) uint64 {
	n, _ := keyedValue(filepath.Join(g.dir, file), key)
	return n
}

// keyedValue reads a file of lines "key value".
func keyedValue(file, key string) (uint64, bool) {
	data, err := slurp(file, nil)
	if err != nil {
		noteBlind(err)
		return 0, false
	}
	return valueOf(data, key)
}

func valueOf(data []byte, key string) (uint64, bool) {
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte(key+" ")); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(string(value)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// members are the living processes in it and below it.
func (g *cgroup) members() []member {
	var out []member
	_ = filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		for _, pid := range (&cgroup{dir: path}).pids() {
			if st, ok := readStat(pid); ok && !st.dead() {
				out = append(out, member{pid, st})
			}
		}
		return nil
	})
	return out
}

// pids are the processes in it, without those below it.
func (g *cgroup) pids() (pids []int) {
	var buffer [512]byte
	data, _ := slurp(filepath.Join(g.dir, "cgroup.procs"), buffer[:0])
	for f := range bytes.FieldsSeq(data) {
		if pid := int(decimal(f)); pid != 0 { // of another pid namespace
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill sends SIGKILL to all that is in it and below it, at once: nothing can be forked out of it meanwhile.
func (g *cgroup) kill() {
	g.plain = false
	_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0)
}

// remove removes it and what the tree has made below it.
func (g *cgroup) remove() {
	err := syscall.Rmdir(g.dir)
	if err != syscall.EBUSY && err != syscall.ENOTEMPTY {
		return
	}
	entries, _ := os.ReadDir(g.dir)
	for _, e := range entries {
		if e.IsDir() {
			(&cgroup{dir: filepath.Join(g.dir, e.Name())}).remove()
		}
	}
	_ = syscall.Rmdir(g.dir)
}
