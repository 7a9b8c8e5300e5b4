package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

func diskFaults() subject {
	const s = time.Second
	return subject{"disk", 12 * s, []fault{
		{"disk/log files' disk full", 1, s, 8 * s, func(r *round, st step) { r.fill(r.logDisk, st.hold) }},
	}}
}

// fill leaves no room on a disk for a while.
func (r *round) fill(disk string, hold time.Duration) {
	name := filepath.Join(disk, "filler")
	file, err := os.Create(name)
	if err != nil {
		r.note("disk", "", err.Error())
		return
	}
	defer func() {
		if err := errors.Join(file.Close(), os.Remove(name)); err != nil {
			r.t.Error(err)
		}
	}()
	at := int64(0)
	for block := int64(16 << 20); block >= 4<<10; {
		if err := unix.Fallocate(int(file.Fd()), 0, at, block); err != nil {
			block /= 2
			continue
		}
		at += block
	}
	r.wait(hold)
}
