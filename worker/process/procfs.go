package process

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// stat is what /proc/PID/stat tells, as far as it is needed here.
type stat struct {
	name  string
	state byte
	ppid  int
	group int
	sess  int
	start uint64 // clock ticks since boot
	empty bool   // it has no memory: it is just ending
}

// dead tells that nothing of the process runs any more. A leader of threads can be Z while a thread lives.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// blind counts looks that failed because this process, or the machine, had no descriptors or no memory left for them. What
// they did not see may be there all the same: a tree must not be taken for empty by such a look.
var blind atomic.Uint64

// noteBlind counts an error if it is of that kind.
func noteBlind(err error) {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		blind.Add(1)
	}
}

// readStat is called for each start and, by the hundred, in sweeps.
func readStat(pid int) (stat, bool) {
	var buffer [1024]byte
	line, err := slurp("/proc/"+strconv.Itoa(pid)+"/stat", buffer[:0])
	if err != nil {
		noteBlind(err)
		return stat{}, false
	}
	return parseStat(line)
}

// slurp appends all of a small file, which is no link, to a buffer. It goes without os.File, which costs as much as the kernel's own work.
func slurp(path string, into []byte) ([]byte, error) {
	fd, err := noEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) })
	if err != nil {
		return into, err
	}
	defer unix.Close(fd)
	for {
		into = slices.Grow(into, 512)
		n, err := noEINTR(func() (int, error) { return unix.Read(fd, into[len(into):cap(into)]) })
		if err != nil || n == 0 {
			return into, err
		}
		into = into[:len(into)+n]
	}
}

// noEINTR calls a system call again that a signal has interrupted.
func noEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// parseStat reads a line of /proc/PID/stat (proc(5)). The name may hold spaces, parentheses and line ends.
func parseStat(data []byte) (stat, bool) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return stat{}, false
	}
	f := strings.Fields(string(data[end+1:]))
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return stat{}, false
	}
	return stat{name: string(data[open+1 : end]), state: f[0][0], ppid: number(1), group: number(2), sess: number(3), start: start, empty: len(f) > 20 && f[20] == "0"}, true
}

// StartTime is when a process started, in clock ticks since boot; with its pid and the boot it names a process for
// good. False where there is no such process, or only what is left of it (a zombie).
func StartTime(pid int) (uint64, bool) {
	s, ok := readStat(pid)
	return s.start, ok && !s.dead()
}

// children appends the children of one thread.
func children(into []int, pid, tid int) []int {
	data, err := slurp("/proc/"+strconv.Itoa(pid)+"/task/"+strconv.Itoa(tid)+"/children", nil)
	if err != nil {
		noteBlind(err)
		return into
	}
	for f := range bytes.FieldsSeq(data) {
		if n, err := strconv.Atoi(string(f)); err == nil {
			into = append(into, n)
		}
	}
	return into
}

// offspring appends the children of all threads of a process.
func offspring(into []int, pid int) []int {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		noteBlind(err)
		return into
	}
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			into = children(into, pid, tid)
		}
	}
	return into
}

// allPids lists every process that /proc shows.
func allPids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		noteBlind(err)
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// markerOf reads the process id in the environment that a process was started with; "" where it may not be read.
func markerOf(pid int) string {
	data, err := slurp("/proc/"+strconv.Itoa(pid)+"/environ", nil)
	if err != nil {
		noteBlind(err)
		return ""
	}
	return markerIn(data)
}

func markerIn(environ []byte) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(Marker+"=")); ok {
			return string(value)
		}
	}
	return ""
}
