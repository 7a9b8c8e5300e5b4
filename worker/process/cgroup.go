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

	// What the kernel answers to; tests put themselves in its place.
	makeDir func(dir string) error
	write   func(file, text string) error
}

const cgroupName = "crawlkeeper-"

// newCgroups tests whether directories can be made and processes put into them.
func newCgroups(prefix uint32) (*cgroups, error) {
	base, err := readOwnCgroup("")
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

// make makes the directory of a tree.
func (c *cgroups) make(number uint64) (*cgroup, error) {
	g := &cgroup{dir: filepath.Join(c.dir, strconv.FormatUint(number, 16))}
	err := c.makeDir(g.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = c.mkdir(c.dir); err == nil {
			err = c.makeDir(g.dir)
		}
	}
	if err != nil {
		return nil, err
	}
	g.fd, err = noEINTR(func() (int, error) { return unix.Open(g.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
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
	dir string
	fd  int // open until the fork

	gone bool // removed; the keeper's, until the tree is done
}

func (g *cgroup) forked() { unix.Close(g.fd) }

// emptied tells whether nothing lives in it any more, and then removes it: an rmdir finds that out by itself.
func (g *cgroup) emptied() bool {
	if !g.gone {
		err := syscall.Rmdir(g.dir)
		g.gone = err == nil || err == syscall.ENOENT
	}
	return g.gone || !g.populated()
}

// populated tells whether any process lives in it or below it; zombies do not count.
func (g *cgroup) populated() bool {
	return g.event("cgroup.events", "populated") == 1
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
		data, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for f := range bytes.FieldsSeq(data) {
			pid, err := strconv.Atoi(string(f))
			if err != nil || pid == 0 { // 0: of another pid namespace
				continue
			}
			if st, ok := readStat(pid); ok && !st.dead() {
				out = append(out, member{pid, st})
			}
		}
		return nil
	})
	return out
}

// kill sends SIGKILL to all that is in it and below it, at once: nothing can be forked out of it meanwhile.
func (g *cgroup) kill() { _ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) }

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
