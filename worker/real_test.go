package worker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker"
	"crawlkeeper/worker/process"
)

// Any order of start, stop, restart, crash and shutdown on real processes, which change their session, fork twice and
// ignore SIGTERM: never two trees of one source, never one left.
func TestAnyOrderOfRealProcesses(t *testing.T) {
	t.Parallel()
	sequences := 300
	if os.Getenv("CRAWLKEEPER_TEST_LONG") != "" {
		sequences = 10_000
	}
	s, err := process.New(process.Options{Name: t.Name(), Scope: t.TempDir(), Logger: testenv.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = s.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	standin := testenv.StandIn(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	gate := make(chan struct{}, 8)
	for i := range sequences {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			sequence(t, s, standin, rand.New(rand.NewPCG(seed, uint64(i))))
		})
	}
	all.Wait()
	if left := testenv.Bearing(t, s.Prefix()); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

var flags = [][]string{nil, {"-setsid"}, {"-double-fork"}, {"-ignore-term"}, {"-leave-child"}, {"-children", "2", "-stubborn", "1"}, {"-exit", "1", "-after", "5ms"}}

// watcher checks that a tree is only started when the last one is gone.
type watcher struct {
	t     *testing.T
	mu    sync.Mutex
	pids  []int
	alive uint64 // number of the tree that is alive; 0 = none
}

func (w *watcher) Moved(m worker.Move) {
	if !worker.CanMove(m.From, m.To) {
		w.t.Errorf("%s -> %s is not in the table", m.From, m.To)
	}
}

func (w *watcher) Process(i worker.Incarnation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch i.Status {
	case worker.StatusRunning:
		if w.alive != 0 {
			w.t.Error("a second tree")
		}
		w.alive = i.Fingerprint
		w.pids = append(w.pids, i.Pid)
	case worker.StatusExited:
		w.alive = 0
	}
}

func (w *watcher) last() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alive == 0 {
		return 0
	}
	return w.pids[len(w.pids)-1]
}

func sequence(t *testing.T, s *process.Spawner, standin string, r *rand.Rand) {
	spec := &worker.Spec{
		Process:     process.Spec{Argv: append([]string{standin}, flags[r.IntN(len(flags))]...), TempRoot: t.TempDir()},
		Env:         os.Environ,
		StopTimeout: 100 * time.Millisecond,
		Delay:       worker.Delay{Min: time.Millisecond, Max: 5 * time.Millisecond, Stable: time.Minute},
	}
	watch := &watcher{t: t}
	w := worker.New("src", worker.Needs{
		Start: func(ctx context.Context, spec process.Spec) (worker.Process, error) {
			p, err := s.Start(ctx, spec)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
		Observer: watch, Logger: testenv.Logger(t),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.Live(ctx, func() { close(done) })
	var asked sync.WaitGroup
	wish := func(k worker.Kind, d worker.Desire) {
		asked.Add(1)
		w.Wish(k, d, func(error) { asked.Done() })
	}
	for range 1 + r.IntN(8) {
		switch r.IntN(5) {
		case 0, 1:
			wish(worker.Restart, worker.Desire{Up: true, Spec: spec})
		case 2:
			wish(worker.Start, worker.Desire{Up: true, Spec: spec})
		case 3:
			wish(worker.Stop, worker.Desire{})
		case 4:
			crash(t, watch.last())
		}
		pause := time.NewTimer(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
		<-pause.C
	}
	cancel()
	<-done
	asked.Wait()
	if n := watch.last(); n != 0 {
		t.Errorf("pid %d is not accounted for", n)
	}
}

func crash(t *testing.T, pid int) {
	if pid == 0 {
		return
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}
