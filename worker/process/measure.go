package process

import (
	"bytes"
	"os"
	"strconv"
)

// PSS is what a process has in memory, in bytes, of shared pages its share. It costs the kernel a walk through all pages.
// Where it may not be read (another user's process), pages that no file is behind stand in its place; those that a fork
// shares count in each then. 0 where the process is gone.
func PSS(pid int) int64 {
	dir := "/proc/" + strconv.Itoa(pid)
	if data, err := os.ReadFile(dir + "/smaps_rollup"); err == nil {
		return kibibytes(data, "Pss:")
	}
	data, err := os.ReadFile(dir + "/statm") // size, resident, shared, … in pages
	if f := bytes.Fields(data); err == nil && len(f) > 2 {
		return max(0, decimal(f[1])-decimal(f[2])) * pageSize
	}
	return 0
}

// Descriptors counts the open files of a process, up to a bound; 0 where they may not be read.
func Descriptors(pid, most int) int {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	n := 0
	for n < most {
		names, err := dir.Readdirnames(256)
		n += len(names)
		if err != nil { // the end
			break
		}
	}
	return n
}
