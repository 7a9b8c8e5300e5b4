package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/worker/process"
)

var exitOne = process.Exit{Code: 1}

// fakeHooks take their time, and see whether they are told to end.
type fakeHooks struct {
	takes time.Duration // before a start
	err   error
	lasts time.Duration // before a stop; 0: there is nothing to do
	cut   atomic.Int64  // hooks that were told to end

	mu     sync.Mutex
	before []Incarnation
	stops  []Incarnation
}

func (h *fakeHooks) Before(ctx context.Context, i Incarnation) error {
	h.mu.Lock()
	h.before = append(h.before, i)
	h.mu.Unlock()
	if !h.spend(ctx, h.takes) {
		return ctx.Err()
	}
	return h.err
}

func (h *fakeHooks) BeforeStop(i Incarnation) func(context.Context) {
	h.mu.Lock()
	h.stops = append(h.stops, i)
	h.mu.Unlock()
	if h.lasts == 0 {
		return nil
	}
	return func(ctx context.Context) { h.spend(ctx, h.lasts) }
}

// told are the processes of which the hooks were told.
func (h *fakeHooks) told() (before, stops []Incarnation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.before), slices.Clone(h.stops)
}

func (f *fake) started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.procs)
}

func (h *fakeHooks) spend(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		h.cut.Add(1)
		return false
	}
}

func TestHooksBeforeAStart(t *testing.T) {
	t.Parallel()
	hooks := &fakeHooks{takes: time.Minute}
	f := &fake{hooks: hooks, stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		time.Sleep(time.Minute - time.Nanosecond)
		wantPhase(t, w, Starting)
		if f.started() != 0 {
			t.Error("it was started before the hooks were through")
		}
		time.Sleep(time.Nanosecond)
		wantPhase(t, w, Running)
		if before, _ := hooks.told(); len(before) != 1 || before[0].ID != w.Snapshot().ProcessID || before[0].Status != StatusQueued {
			t.Errorf("told %+v", before)
		}
		hooks.err = errors.New("no proxy is free")
		f.last().end(exitOne)
		time.Sleep(5*time.Second + time.Minute)
		wantPhase(t, w, Backoff)
		if got := w.Snapshot().LastExit; got.Cause != StartFailed || got.Error != "no proxy is free" {
			t.Errorf("a start that was refused: %+v", got)
		}
	})
	if f.started() != 1 {
		t.Errorf("%d starts", f.started())
	}
}

func TestAStopEndsTheHooksBeforeAStart(t *testing.T) {
	t.Parallel()
	hooks := &fakeHooks{takes: time.Hour}
	f := &fake{hooks: hooks}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		wantPhase(t, w, Starting)
		wantAnswer(t, ask(t, w, Stop, Desire{By: "test"}), nil)
		wantPhase(t, w, Stopped)
	})
	equal(t, "causes", f.causes(), []Cause{StoppedBy})
	if hooks.cut.Load() != 1 || f.started() != 0 {
		t.Errorf("%d hooks were told to end, %d starts", hooks.cut.Load(), f.started())
	}
}

// A hook before a stop has half of the stop timeout; all of it together is never longer.
func TestHooksBeforeAStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lasts time.Duration
		deaf  bool
		took  time.Duration
		cut   int64
	}{
		"nothing to do":                     {0, false, time.Second, 0},
		"brief":                             {2 * time.Second, false, 3 * time.Second, 0},
		"it hangs":                          {time.Hour, false, 8500 * time.Millisecond, 1},
		"a deaf crawler has what is left":   {2 * time.Second, true, 15 * time.Second, 0},
		"and also behind a hook that hangs": {time.Hour, true, 15 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks := &fakeHooks{lasts: c.lasts}
			f := &fake{hooks: hooks, stopTakes: time.Second, deaf: c.deaf}
			bubble(t, f, func(w *Worker, _ context.CancelFunc) {
				w.Want(up)
				synctest.Wait()
				began := time.Now()
				w.Want(Desire{By: "somebody"})
				for w.Snapshot().Phase != Stopped {
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
				synctest.Wait()
				if took := time.Since(began); took != c.took || hooks.cut.Load() != c.cut {
					t.Errorf("took %s, %d hooks were told to end", took, hooks.cut.Load())
				}
				if _, stops := hooks.told(); len(stops) != 1 || stops[0].Cause != StoppedBy || stops[0].By != "somebody" {
					t.Errorf("told %+v", stops)
				}
			})
		})
	}
}

func TestNoHooksWhereNobodyGetsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hooks := &fakeHooks{lasts: time.Hour}
		f := &fake{t: t, stopTakes: time.Hour}
		kill := make(chan struct{})
		w := New("src", Needs{Start: f.start, Hooks: hooks, Observer: f, Kill: kill, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		w.Live(ctx, func() { close(done) })
		w.Want(up)
		synctest.Wait()
		began := time.Now()
		cancel()
		time.Sleep(time.Second)
		close(kill) // the second signal
		<-done
		if took := time.Since(began); took != time.Second {
			t.Errorf("the end took %s", took)
		}
		synctest.Wait()
		if hooks.cut.Load() != 1 {
			t.Error("the hook was not told to end")
		}
	})
}

func TestAnEndThatNobodyAskedForHasNoHooksBefore(t *testing.T) {
	t.Parallel()
	hooks := &fakeHooks{lasts: time.Second}
	f := &fake{hooks: hooks}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		synctest.Wait()
		f.last().end(exitOne)
		wantPhase(t, w, Backoff)
	})
	if _, stops := hooks.told(); len(stops) != 0 {
		t.Errorf("told %+v", stops)
	}
}
