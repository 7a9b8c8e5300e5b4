package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Fields of /proc/self/stat, counted from the state: where arguments and environment begin and end in memory.
const (
	argStart = 45
	argEnd   = 46
	envStart = 47
	envEnd   = 48
)

// disguise overwrites what /proc shows of this process, as setproctitle does.
func disguise() error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return fmt.Errorf("find title: %w", err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("overwrite title: %w", err)
	}
	defer memory.Close()
	for _, area := range [][2]int{{argStart, argEnd}, {envStart, envEnd}} {
		from, err := strconv.ParseInt(string(fields[area[0]]), 10, 64)
		if err != nil {
			return fmt.Errorf("find title: %w", err)
		}
		to, err := strconv.ParseInt(string(fields[area[1]]), 10, 64)
		if err != nil {
			return fmt.Errorf("find title: %w", err)
		}
		if _, err := memory.WriteAt(make([]byte, to-from), from); err != nil {
			return fmt.Errorf("overwrite title: %w", err)
		}
	}
	return os.WriteFile("/proc/self/comm", []byte("somebody else"), 0o600)
}
