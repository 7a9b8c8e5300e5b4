package limits

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/worker/process"
)

// BenchmarkLook is one look at 1,000 trees, of two processes each.
func BenchmarkLook(b *testing.B) {
	s, err := process.New(process.Options{Name: b.Name(), Scope: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	defer running.Wait()
	defer stop()
	trees := make([]Tree, 1000)
	processes := make([]*process.Process, len(trees))
	for i := range trees {
		p, err := s.Start(ctx, process.Spec{ID: strconv.Itoa(i), Argv: []string{"sh", "-c", "sleep 1000; exit"}, Env: os.Environ()})
		if err != nil {
			b.Fatal(err)
		}
		processes[i] = p
		trees[i] = Tree{Source: strconv.Itoa(i), Process: strconv.Itoa(i), Pid: p.Pid(), Started: time.Now()}
	}
	for name, l := range map[string]Limits{
		"memory and processes": {Memory: 1 << 30, Processes: 100, OutputRate: 1 << 20, MaxAge: time.Hour},
		"open files too":       {Memory: 1 << 30, Processes: 100, OpenFiles: 100},
		"exact memory":         {Memory: 1 << 19}, // the plain sum is over it, what is its own is not
	} {
		b.Run(name, func(b *testing.B) {
			w := NewWatcher()
			for i := range trees {
				trees[i].Limits = l
			}
			b.ReportAllocs()
			defer reportCPU(b)()
			for b.Loop() {
				if found := w.Look(ctx, time.Now(), s.Census(), trees); len(found) > 0 {
					b.Log(found[0])
				}
			}
		})
	}
	b.Run("census alone", func(b *testing.B) {
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			process.TakeCensus()
		}
	})
	var sweeps sync.WaitGroup
	for _, p := range processes {
		sweeps.Go(func() { _, _ = p.Sweep(context.Background()) })
	}
	sweeps.Wait()
}

// reportCPU adds the processor time of this process to what a benchmark says: on a busy machine it is worth more than the
// time that passed.
func reportCPU(b *testing.B) func() {
	used := func() time.Duration {
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before)/time.Microsecond)/1000/float64(b.N), "cpu-ms/op") }
}
