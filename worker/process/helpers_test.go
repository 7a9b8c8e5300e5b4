package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/worker/process"
)

func printWays([]string) error {
	s, stop, err := alone()
	if err != nil {
		return err
	}
	defer stop()
	w := s.Ways()
	return json.NewEncoder(os.Stdout).Encode(w)
}

func sh(script string) process.Spec {
	return process.Spec{ID: uniqueID(), Argv: []string{"sh", "-c", script}, Env: os.Environ()}
}

// asPID1 leaves 500 orphans that end together, while 300 leaders end with statuses that must not be lost.
func asPID1([]string) error {
	if os.Getpid() != 1 {
		return errors.New("this is not PID 1")
	}
	s, stop, err := alone()
	if err != nil {
		return err
	}
	defer stop()
	gatePath := filepath.Join(os.TempDir(), uniqueID())
	defer os.Remove(gatePath)
	if err := syscall.Mkfifo(gatePath, 0o600); err != nil {
		return err
	}
	p, err := s.Start(context.Background(), sh(`i=0; while [ $i -lt 500 ]; do (sh -c 'read x <"$0"' `+gatePath+` &); i=$((i+1)); done; exec sleep 1000`))
	if err != nil {
		return err
	}
	defer sweep(p)
	var orphans []int
	err = until("500 orphans", func() bool {
		orphans = orphans[:0]
		for _, o := range procs() {
			if o.ppid == 1 && o.pid != p.Pid() && strings.Contains(cmdline(o.pid), gatePath) {
				orphans = append(orphans, o.pid)
			}
		}
		return len(orphans) == 500
	})
	if err != nil {
		return err
	}
	var leaders sync.WaitGroup
	lost := make(chan error, 300)
	for i := range 300 {
		leaders.Go(func() {
			q, err := s.Start(context.Background(), sh("exit "+strconv.Itoa(i%100+1)))
			if err != nil {
				lost <- err
				return
			}
			if got := q.Exit(); got.Code != i%100+1 {
				lost <- fmt.Errorf("leader %d: %v", i, got)
			}
			if err := sweep(q); err != nil {
				lost <- err
			}
		})
	}
	gate, err := os.OpenFile(gatePath, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err := gate.WriteString(strings.Repeat("\n", 600)); err != nil { // opening alone wakes nobody; each reads a line
		return err
	}
	begin := time.Now()
	err = until("all orphans are reaped", func() bool {
		return !slices.ContainsFunc(orphans, func(pid int) bool { _, there := procOf(pid); return there })
	})
	took := time.Since(begin)
	gate.Close()
	leaders.Wait()
	close(lost)
	for e := range lost {
		err = errors.Join(err, e)
	}
	fmt.Printf("500 orphans reaped after %v\n", took)
	if took > 10*time.Second {
		err = errors.Join(err, errors.New("that is too late"))
	}
	return err
}

func cmdline(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(data)
}

// leaveUnmarked has a crawler leave a daemon that bears no mark at all. It prints whether that lives after the sweep.
func leaveUnmarked([]string) error {
	s, stop, err := alone(process.ByLocks, process.ByKin)
	if err != nil {
		return err
	}
	defer stop()
	out := filepath.Join(os.TempDir(), uniqueID())
	defer os.Remove(out)
	spec := sh(`prlimit --locks=unlimited:unlimited env -i setsid sh -c '(setsid sleep 1000 & echo $! >$0)' ` + out)
	p, err := s.Start(context.Background(), spec)
	if err != nil {
		return err
	}
	<-p.Exited()
	if err := sweep(p); err != nil {
		return err
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return err
	}
	fmt.Println("lives:", lives(pid), "unmarked:", s.Unmarked())
	_ = kill(pid)
	return nil
}

// blocked is how many threads may wait in system calls together here: 8 starts at a time and the slots for files and facts.
// The runtime keeps threads, and a busy machine needs more of them at once; a leak would be one for each restart.
const blocked = 13

// churn starts and ends so many processes and compares what we hold after a tenth and at the end.
func churn(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	s, stop, err := alone()
	if err != nil {
		return err
	}
	defer stop()
	temp, err := os.MkdirTemp("", "crawlkeeper-churn-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	round := func(n int) error {
		var all sync.WaitGroup
		errs := make(chan error, 8)
		for range 8 {
			all.Go(func() {
				for range n / 8 {
					spec := process.Spec{ID: uniqueID(), Argv: []string{"sh", "-c", "exit 1"}, Env: os.Environ(), TempRoot: temp}
					p, err := s.Start(context.Background(), spec)
					if err == nil {
						<-p.Exited()
						err = sweep(p)
					}
					if err != nil {
						errs <- err
						return
					}
				}
			})
		}
		all.Wait()
		close(errs)
		return <-errs
	}
	if err := round(max(2000, n/10)); err != nil { // until the race detector has what it keeps
		return err
	}
	before := held()
	if err := round(n); err != nil {
		return err
	}
	after := held()
	fmt.Printf("%d restarts: before %+v, after %+v\n", n, before, after)
	if after.Goroutines > before.Goroutines+2 || after.Files > before.Files+2 || after.Threads > before.Threads+blocked || after.Memory > before.Memory+before.Memory/4+8<<20 {
		return errors.New("something grows")
	}
	return nil
}

type holdings struct {
	Goroutines, Files, Threads int
	Memory                     int64
}

func held() holdings {
	runtime.GC()
	h := holdings{Goroutines: runtime.NumGoroutine()}
	files, _ := os.ReadDir("/proc/self/fd")
	tasks, _ := os.ReadDir("/proc/self/task")
	census := process.TakeCensus()
	h.Files, h.Threads, h.Memory = len(files), len(tasks), census.Of(os.Getpid()).RSS
	for _, child := range procs() { // it counts children too
		if child.ppid == os.Getpid() {
			h.Memory -= census.Of(child.pid).RSS
		}
	}
	return h
}

// many holds so many children, tells what that takes, how soon a death is known, and what it takes when all end at once.
func many(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	s, stop, err := alone(waysOf(args[1:])...)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println(s.Ways())
	begin := time.Now()
	all := make([]*process.Process, n)
	for i := range all {
		if all[i], err = s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: []string{"sleep", "1000"}, Env: os.Environ()}); err != nil {
			return err
		}
	}
	fmt.Printf("%d children started in %v: %+v\n", n, time.Since(begin).Round(time.Millisecond), held())
	passes := s.Passes()
	delays := make([]time.Duration, 0, 100)
	for _, p := range all[:min(100, n/2)] {
		at := time.Now()
		if err := kill(p.Pid()); err != nil {
			return err
		}
		<-p.Exited()
		delays = append(delays, time.Since(at))
	}
	slices.Sort(delays)
	fmt.Printf("death known after p50 %v, p99 %v\n", delays[len(delays)/2], delays[len(delays)*99/100])
	begin = time.Now()
	for _, p := range all[len(delays):] {
		_ = kill(p.Pid())
	}
	for _, p := range all {
		<-p.Exited()
	}
	between := s.Passes()
	var sweeps sync.WaitGroup
	for _, p := range all {
		sweeps.Go(func() { _ = sweep(p) })
	}
	sweeps.Wait()
	tasks, _ := os.ReadDir("/proc/self/task")
	ended := s.Passes() - between
	fmt.Printf("all ended and swept after %v with %d looks (%d before), threads %d\n", time.Since(begin).Round(time.Millisecond), ended, between-passes, len(tasks))
	if len(tasks) > 16 {
		return errors.New("too many threads")
	}
	if ended > 200 {
		return errors.New("too many looks at /proc")
	}
	return nil
}

// doomed starts a program through the step, tells its pid, and waits to be killed.
func doomed([]string) error {
	s, stop, err := alone()
	if err != nil {
		return err
	}
	defer stop()
	umask := 0o027
	p, err := s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: []string{"sleep", "1000"}, Env: os.Environ(), Umask: &umask, User: "nobody"})
	if err != nil {
		return err
	}
	fmt.Println(p.Pid())
	signal.Ignore(syscall.SIGTERM)
	<-p.Exited()
	return sweep(p)
}

// hungry starts a crawler that takes more memory than our cgroup has, and one that is killed by somebody.
func hungry(args []string) error {
	s, stop, err := alone()
	if err != nil {
		return err
	}
	defer stop()
	p, err := s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: []string{args[0], "-allocate", "2000"}, Env: os.Environ()})
	if err != nil {
		return err
	}
	if e := p.Exit(); !e.OOM || e.Signal != syscall.SIGKILL {
		err = fmt.Errorf("out of memory: %+v", e)
	}
	q, startErr := s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: []string{"sleep", "1000"}, Env: os.Environ()})
	if startErr != nil {
		return startErr
	}
	_ = kill(q.Pid())
	if e := q.Exit(); e.OOM {
		err = errors.Join(err, fmt.Errorf("killed by somebody: %+v", e))
	}
	return errors.Join(err, sweep(p), sweep(q))
}

// crowded runs out of descriptors.
func crowded([]string) error {
	s, stop, err := alone()
	if err != nil {
		return err
	}
	defer stop()
	p, err := s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: []string{"true"}, Env: os.Environ()})
	if err != nil {
		return err
	}
	<-p.Exited()
	if err := sweep(p); err != nil {
		return err
	}
	files, _ := os.ReadDir("/proc/self/fd")
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	few := unix.Rlimit{Cur: uint64(len(files) - 1), Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		return err
	}
	_, err = s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: []string{"true"}, Env: os.Environ()})
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); e != nil {
		return e
	}
	var failed *process.StartError
	if !errors.As(err, &failed) || !errors.Is(err, syscall.EMFILE) {
		return fmt.Errorf("%w, want a StartError with EMFILE", err)
	}
	fmt.Println(failed)
	return nil
}

// endBrowser has a crawler start a real Chromium and kills the crawler.
func endBrowser(args []string) error {
	s, stop, err := alone(waysOf(args[1:])...)
	if err != nil {
		return err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	spec := sh(args[0] + ` --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir=` + dir + `/profile --remote-debugging-port=0 'data:text/html,<h1>x</h1>' & wait`)
	spec.Dir, spec.TempRoot = dir, dir
	p, err := s.Start(context.Background(), spec)
	if err != nil {
		return err
	}
	defer sweep(p)
	browser := func() (n int) {
		for _, o := range procs() {
			if strings.HasPrefix(o.cwd, dir) && strings.Contains(o.exe, "chrom") {
				n++
			}
		}
		return n
	}
	if err := until("a browser with its helpers", func() bool { return browser() >= 5 && strings.Contains(profiles(dir), "DevToolsActivePort") }); err != nil {
		return fmt.Errorf("%w (%d processes)", err, browser())
	}
	there := browser()
	begin := time.Now()
	if err := kill(p.Pid()); err != nil {
		return err
	}
	<-p.Exited()
	r, err := p.Sweep(context.Background())
	if err != nil {
		return err
	}
	err = until("the browser is gone", func() bool { return browser() == 0 })
	took := time.Since(begin)
	fmt.Printf("%v: %d processes, %d swept, gone after %v\n", s.Ways(), there, len(r.Swept), took)
	if took > 10*time.Second {
		err = errors.Join(err, errors.New("that is too late"))
	}
	return err
}

func waysOf(names []string) (ways []process.Way) {
	for _, n := range names {
		ways = append(ways, process.Way(n))
	}
	return ways
}

func profiles(dir string) string {
	names, _ := filepath.Glob(dir + "/profile/*")
	return strings.Join(names, " ")
}
