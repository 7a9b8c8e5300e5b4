package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// lookProcesses and lookSockets bound a Look.
const (
	lookProcesses = 50
	lookSockets   = 50
)

// Look says in lines what the living tree of a leader does at this moment: of each process its state, what it waits for in
// the kernel, its open files and its sockets. What may not be read is left out. It may take long, or for ever: reading /proc
// waits for a process that holds its own memory map. So call it where nobody waits for it.
func Look(pid int) []string {
	entries := Tree(pid)
	if len(entries) == 0 {
		return nil
	}
	peers := socketsOf(pid)
	var lines []string
	sockets := 0
	for i, e := range entries {
		if i == lookProcesses {
			lines = append(lines, fmt.Sprintf("and %d more processes", len(entries)-i))
			break
		}
		files, inodes := openFiles(e.Pid)
		line := fmt.Sprintf("pid %d %s: state %s", e.Pid, e.Name, e.State)
		if wait := firstWord(e.Pid, "wchan"); wait != "" && wait != "0" {
			line += ", waits in " + wait
		}
		if call := firstWord(e.Pid, "syscall"); call != "" {
			line += ", system call " + call
		}
		lines = append(lines, fmt.Sprintf("%s, threads %d, files %d, memory %d KiB", line, e.Tasks, files, e.RSS>>10))
		for _, inode := range inodes {
			peer, known := peers[inode]
			if !known {
				continue
			}
			if sockets++; sockets <= lookSockets {
				lines = append(lines, "  "+peer)
			}
		}
	}
	if sockets > lookSockets {
		lines = append(lines, fmt.Sprintf("and %d more sockets", sockets-lookSockets))
	}
	return lines
}

// firstWord of a file of a process: a wait channel, or the number of a system call ("running" outside of any).
func firstWord(pid int, file string) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
	if err != nil {
		return ""
	}
	word, _, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	return word
}

// openFiles counts the descriptors of a process, and lists the inodes of those that are sockets.
func openFiles(pid int) (n int, sockets []string) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, nil
	}
	for _, e := range entries {
		target, err := os.Readlink(dir + "/" + e.Name())
		if err != nil {
			continue
		}
		n++
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			sockets = append(sockets, strings.TrimSuffix(inode, "]"))
		}
	}
	return n, sockets
}
