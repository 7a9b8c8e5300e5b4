package process

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Catches tells whether a process catches or ignores a signal. Where that cannot be seen it is true.
func Catches(pid int, sig syscall.Signal) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return true
	}
	return takesSignal(data, sig)
}

// takesSignal reads the masks of /proc/PID/status (proc(5)).
func takesSignal(status []byte, sig syscall.Signal) bool {
	seen := false
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "SigIgn" && string(name) != "SigCgt" {
			continue
		}
		mask, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
		if err != nil {
			return true
		}
		if mask&(1<<(sig-1)) != 0 {
			return true
		}
		seen = true
	}
	return !seen
}
