package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/internal/testenv/servers"
	"crawlkeeper/worker/process"
)

// laden is a crawler of the laden floor, with what a manager has to give to each one and to take back at its end.
type laden struct {
	pid, pidfd int
	dir        string
	group      string // its cgroup; empty where none can be made
	out        [2]*os.File
}

// ladenFloor is floor with a directory, two pipes, a pidfd and, where they can be made, a cgroup for each crawler, and a look at
// its memory before its end. It is what a manager cannot do without, and nothing else: no thread beside this one, no row, no log.
func (w *world) ladenFloor(ctx context.Context, f *figures) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dirs := filepath.Join(w.env.Dir(), "laden")
	if err := os.Mkdir(dirs, 0o700); err != nil {
		return err
	}
	defer os.Remove(dirs)
	groups := groupsFor(fmt.Sprintf("crawlkeeper-bench-%d", os.Getpid()))
	if groups != "" {
		defer os.Remove(groups)
	}
	var all []*laden
	defer func() { err = errors.Join(err, unload(all)) }()
	began := time.Now()
	for i := range w.n {
		one, err := w.load(i, dirs, groups)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	if _, err := w.starts.wait(ctx, w.n, nil); err != nil {
		return err
	}
	f.Laden.Start = append(f.Laden.Start, seconds(time.Since(began)))
	began = time.Now()
	err = unload(all)
	f.Laden.Stop = append(f.Laden.Stop, seconds(time.Since(began)))
	all = nil
	return err
}

// groupsFor makes a cgroup for cgroups; empty where none can be made.
func groupsFor(name string) string {
	base, err := process.OwnCgroup("")
	if err != nil {
		return ""
	}
	dir := filepath.Join(base, name)
	if os.Mkdir(dir, 0o755) != nil {
		return ""
	}
	return dir
}

// load starts a crawler.
func (w *world) load(i int, dirs, groups string) (_ *laden, err error) {
	one := &laden{dir: filepath.Join(dirs, strconv.Itoa(i))}
	if err := os.Mkdir(one.dir, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = one.takeBack()
		}
	}()
	sys := &syscall.SysProcAttr{PidFD: &one.pidfd}
	if groups != "" {
		one.group = filepath.Join(groups, strconv.Itoa(i))
		if err := os.Mkdir(one.group, 0o755); err != nil {
			return nil, err
		}
		group, err := os.Open(one.group)
		if err != nil {
			return nil, err
		}
		defer group.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(group.Fd())
	}
	attr := &syscall.ProcAttr{Env: append(os.Environ(), w.starts.environ()...), Files: []uintptr{0, 0, 0}, Sys: sys}
	for k := range one.out {
		var ends [2]int // of which none goes into the netpoller
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return nil, err
		}
		defer unix.Close(ends[1])
		one.out[k], attr.Files[1+k] = os.NewFile(uintptr(ends[0]), "pipe"), uintptr(ends[1])
	}
	one.pid, err = syscall.ForkExec(servers.LookPath("sh"), []string{"sh", "-c", script, code(i)}, attr)
	return one, err
}

// unload asks all to end, waits for each and takes back what it was given.
func unload(all []*laden) error {
	for _, one := range all {
		_, _ = os.ReadFile("/proc/" + strconv.Itoa(one.pid) + "/status")
		if one.group != "" {
			_, _ = os.ReadFile(filepath.Join(one.group, "cgroup.procs"))
		}
		_ = unix.PidfdSendSignal(one.pidfd, unix.SIGTERM, nil, 0)
		_ = unix.PidfdSendSignal(one.pidfd, unix.SIGCONT, nil, 0)
	}
	var errs []error
	for _, one := range all {
		for unix.Waitid(unix.P_PIDFD, one.pidfd, nil, unix.WEXITED, nil) == unix.EINTR {
		}
		unix.Close(one.pidfd)
		errs = append(errs, one.takeBack())
	}
	return errors.Join(errs...)
}

// takeBack is called when nothing lives of it any more.
func (l *laden) takeBack() error {
	for _, out := range l.out {
		if out != nil {
			_, _ = io.Copy(io.Discard, out)
			out.Close()
		}
	}
	err := os.Remove(l.dir)
	if l.group != "" {
		err = errors.Join(err, os.Remove(l.group))
	}
	return err
}
