package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"crawlkeeper/internal/testenv/servers"
)

// oneByOne is how many single starts are measured.
const oneByOne = 20

// floors are measured before and after the fleet: the means count. Nothing else of this process forks meanwhile, hence they may.
func (w *world) floors(ctx context.Context, f *figures) error {
	if err := w.floor(ctx, f); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	if err := w.ladenFloor(ctx, f); err != nil {
		return fmt.Errorf("laden floor: %w", err)
	}
	return nil
}

// floor starts and ends the crawlers by a bare loop of forks on one thread.
func (w *world) floor(ctx context.Context, f *figures) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
	attr := &syscall.ProcAttr{Env: append(os.Environ(), w.starts.environ()...), Files: files}
	shell := servers.LookPath("sh")
	var pids []int
	defer func() { endAll(pids) }()
	begin := func(n int) error {
		for i := range n {
			pid, err := syscall.ForkExec(shell, []string{"sh", "-c", script, code(i)}, attr)
			if err != nil {
				return fmt.Errorf("fork: %w", err)
			}
			pids = append(pids, pid)
		}
		_, err := w.starts.wait(ctx, n, nil)
		return err
	}
	began := time.Now()
	if err := begin(w.n); err != nil {
		return err
	}
	f.Floor.Start = append(f.Floor.Start, seconds(time.Since(began)))
	began = time.Now()
	endAll(pids)
	f.Floor.Stop = append(f.Floor.Stop, seconds(time.Since(began)))
	pids = nil
	var one []float64
	for range oneByOne {
		began := time.Now()
		if err := begin(1); err != nil {
			return err
		}
		one = append(one, milliseconds(time.Since(began)))
	}
	f.Floor.One = append(f.Floor.One, spreadOf(one).P50)
	return nil
}

func endAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	for _, pid := range pids {
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR { //nolint:errorlint // a bare errno
				break
			}
		}
	}
}
