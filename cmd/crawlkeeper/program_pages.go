package main

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram takes the pages of the program's own file out of this process's memory. Half of them were needed by the start alone
// (migrations, configuration, tables of the runtime), and stay until the kernel lacks memory. What is needed again is mapped again from
// the kernel's cache of the file, as a rule without a disk. Where anything is not as it should be this does nothing: it is no duty. It
// returns how many bytes of addresses it let go.
func releaseProgram() (released uintptr) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return 0
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0
	}
	for _, m := range cleanMappings(smaps, program) {
		if _, _, failed := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); failed == 0 {
			released += m.end - m.start
		}
	}
	return released
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// cleanMappings finds in the text of smaps what is mapped of a file, cannot be written and has not been: of what was written, as in a
// program that was relocated, this process has the only copy.
func cleanMappings(smaps []byte, file string) (clean []mapping) {
	var m mapping
	ours := false
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		line := lines.Text()
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"): // the first line of a mapping
			m = addresses(fields[0])
			ours = strings.HasPrefix(fields[1], "r-") && strings.HasSuffix(line, " "+file)
		case ours && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && m.start < m.end:
			clean = append(clean, m)
		}
	}
	return clean
}

// addresses reads START-END; both are 0 where it cannot.
func addresses(text string) mapping {
	first, second, _ := strings.Cut(text, "-")
	start, err := strconv.ParseUint(first, 16, 64)
	if err != nil {
		return mapping{}
	}
	end, err := strconv.ParseUint(second, 16, 64)
	if err != nil {
		return mapping{}
	}
	return mapping{uintptr(start), uintptr(end)}
}
