package servers

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const diskPrefix = "disk-"

// Disk mounts a file system of so many MiB, which can be filled without harm to others, and returns its folder. Only root may
// mount. Who made it removes it; where that was killed, the next Env does.
func (e *Env) Disk(mib int) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(e.dir, diskPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make folder for a disk: %w", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0711", mib)); err != nil {
		return "", nil, fmt.Errorf("mount a disk: %w", err)
	}
	return dir, func() error { return unmount(dir) }, nil
}

func unmount(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// unmountAll takes off what a process that was killed has left mounted in its folder.
func unmountAll(env string) {
	disks, _ := filepath.Glob(filepath.Join(env, diskPrefix+"*"))
	for _, dir := range disks {
		_ = unmount(dir) // it may have been unmounted already
	}
}
