package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/worker/process"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	d := Delay{Min: 5 * time.Second, Max: 300 * time.Second, Stable: 60 * time.Second, Jitter: 0.1}
	for _, c := range []struct{ last, ran, want time.Duration }{
		{0, 0, 5 * time.Second},
		{5 * time.Second, 0, 10 * time.Second},
		{160 * time.Second, time.Second, 300 * time.Second},
		{300 * time.Second, 59*time.Second + 999*time.Millisecond, 300 * time.Second},
		{300 * time.Second, 60 * time.Second, 5 * time.Second},
	} {
		if got := d.After(c.last, c.ran); got != c.want {
			t.Errorf("After(%v, %v) = %v, want %v", c.last, c.ran, got, c.want)
		}
	}
	if lo, hi := d.WithJitter(100*time.Second, 0), d.WithJitter(100*time.Second, 0.999); lo != 100*time.Second || hi <= 109*time.Second || hi >= 110*time.Second {
		t.Errorf("jitter from %v to %v", lo, hi)
	}
}

func TestCrashLoopExactAtTheEdges(t *testing.T) {
	t.Parallel()
	f := &fake{}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		for n, pause := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
			synctest.Wait()
			f.last().end(process.Exit{Code: 1})
			phase := Backoff
			if pause == 300 {
				phase = Cooling
			}
			wantPhase(t, w, phase)
			time.Sleep(pause*time.Second - time.Nanosecond)
			wantPhase(t, w, phase)
			time.Sleep(time.Nanosecond)
			wantPhase(t, w, Running)
			if got := w.Snapshot().Restarts; got != n+1 {
				t.Errorf("restarts %d, want %d", got, n+1)
			}
		}
		time.Sleep(60*time.Second - time.Nanosecond) // not stable yet
		f.last().end(process.Exit{})
		wantPhase(t, w, Cooling)
		time.Sleep(300 * time.Second)
		wantPhase(t, w, Running)
		time.Sleep(60 * time.Second)
		f.last().end(process.Exit{})
		wantPhase(t, w, Backoff)
		time.Sleep(5 * time.Second)
		wantPhase(t, w, Running)
	})
}

func TestCauseIsDecidedByWhoAsked(t *testing.T) {
	t.Parallel()
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		for _, e := range []process.Exit{{Code: 0}, {Code: 2}, {Code: -1, Signal: syscall.SIGKILL}} {
			wantPhase(t, w, Running)
			f.last().end(e)
			synctest.Wait()
			wantAnswer(t, ask(t, w, Restart, up), nil)
		}
		got := ask(t, w, Restart, up)
		synctest.Wait() // the signal is sent
		f.last().end(process.Exit{Code: 9})
		wantAnswer(t, got, nil)
		stop := ask(t, w, Stop, Desire{})
		time.Sleep(time.Second)
		wantAnswer(t, stop, nil)
		wantPhase(t, w, Stopped)
	})
	equal(t, "causes", f.causes(), []Cause{Exited, Crashed, Signalled, Restarted, StoppedBy})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	t.Run("running", func(t *testing.T) {
		t.Parallel()
		f := &fake{stopTakes: time.Second}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			w.Want(up)
			synctest.Wait()
			got := ask(t, w, Restart, up)
			if _, ok := got(); ok {
				t.Error("answered before the new process runs")
			}
			time.Sleep(time.Second)
			wantAnswer(t, got, nil)
			if w.Snapshot().Pid != 101 {
				t.Errorf("pid %d", w.Snapshot().Pid)
			}
		})
		equal(t, "phases", f.phases(), []Phase{Pending, Starting, Running, Stopping, Starting, Running, Stopping, Stopped})
	})
	t.Run("in backoff: at once, and the backoff is at its minimum", func(t *testing.T) {
		t.Parallel()
		f := &fake{}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			w.Want(up)
			for range 3 {
				synctest.Wait()
				f.last().end(process.Exit{Code: 1})
				synctest.Wait()
				time.Sleep(time.Until(w.Snapshot().BackoffUntil))
			}
			synctest.Wait()
			f.last().end(process.Exit{Code: 1})
			wantPhase(t, w, Backoff)
			before := time.Now()
			wantAnswer(t, ask(t, w, Restart, up), nil)
			if !time.Now().Equal(before) {
				t.Error("it waited")
			}
			f.last().end(process.Exit{Code: 1})
			synctest.Wait()
			if got := time.Until(w.Snapshot().BackoffUntil); got != 5*time.Second {
				t.Errorf("the next delay is %v", got)
			}
		})
	})
	t.Run("while starting, before the fork: that start is the new one", func(t *testing.T) {
		t.Parallel()
		f := &fake{}
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			f.t = t
			w := New("src", Needs{Start: f.start, Observer: f, Gate: func(ctx context.Context) error {
				select {
				case <-gate:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			w.Live(ctx, func() { close(done) })
			w.Want(up)
			got := ask(t, w, Restart, up)
			wantPhase(t, w, Pending)
			close(gate)
			wantAnswer(t, got, nil)
			if len(f.starts) != 1 {
				t.Errorf("%d starts", len(f.starts))
			}
			cancel()
			<-done
		})
	})
	t.Run("while starting, in the fork: another one follows", func(t *testing.T) {
		t.Parallel()
		f := &fake{}
		synctest.Test(t, func(t *testing.T) {
			f.t, f.startGate = t, make(chan struct{})
			w := New("src", Needs{Start: f.start, Observer: f})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			w.Live(ctx, func() { close(done) })
			w.Want(up)
			wantPhase(t, w, Starting)
			got := ask(t, w, Restart, up)
			close(f.startGate)
			wantAnswer(t, got, nil)
			wantPhase(t, w, Running)
			if len(f.starts) != 2 {
				t.Errorf("%d starts", len(f.starts))
			}
			cancel()
			<-done
		})
	})
	t.Run("while stopping and twice at the same moment: one restart, both ok", func(t *testing.T) {
		t.Parallel()
		f := &fake{stopTakes: time.Second}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			w.Want(up)
			synctest.Wait()
			a, b := ask(t, w, Restart, up), ask(t, w, Restart, up)
			wantPhase(t, w, Stopping)
			c := ask(t, w, Restart, up)
			time.Sleep(time.Second)
			for _, got := range []func() (error, bool){a, b, c} {
				wantAnswer(t, got, nil)
			}
			if len(f.starts) != 2 {
				t.Errorf("%d starts", len(f.starts))
			}
		})
	})
	t.Run("between an exit and the wait for it", func(t *testing.T) {
		t.Parallel()
		f := &fake{}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			w.Want(up)
			synctest.Wait()
			f.last().end(process.Exit{Code: 1})
			wantAnswer(t, ask(t, w, Restart, up), nil) // without a wait between the two
			wantPhase(t, w, Running)
		})
	})
	t.Run("the start fails", func(t *testing.T) {
		t.Parallel()
		broken := &process.StartError{Program: "crawl", Reason: "no such file", Err: syscall.ENOENT}
		f := &fake{startErr: func(n int) error {
			if n == 2 {
				return broken
			}
			return nil
		}}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			w.Want(up)
			synctest.Wait()
			wantAnswer(t, ask(t, w, Restart, up), syscall.ENOENT)
			wantPhase(t, w, Backoff)
			time.Sleep(5 * time.Second)
			wantPhase(t, w, Running)
		})
		equal(t, "causes", f.causes()[:2], []Cause{Restarted, StartFailed})
	})
}

func TestAWishDuringAStartThatFailsDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, startGate: make(chan struct{}, 9), startErr: func(n int) error {
			if n == 1 {
				return &process.StartError{Program: "x", Reason: "no", Err: syscall.ENOENT}
			}
			return nil
		}}
		w := New("src", Needs{Start: f.start, Observer: f, Logger: discard})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		w.Live(ctx, func() { close(done) })
		w.Want(up)
		wantPhase(t, w, Starting)
		got := ask(t, w, Restart, up) // it came after the start began: that start does not fulfil it
		synctest.Wait()
		f.startGate <- struct{}{}
		f.startGate <- struct{}{}
		wantAnswer(t, got, nil)
		wantPhase(t, w, Running)

		wantAnswer(t, ask(t, w, Stop, Desire{}), nil)
		w.Want(up)
		wantPhase(t, w, Starting)
		stop := ask(t, w, Stop, Desire{})
		wantAnswer(t, stop, nil) // it cut the start off
		wantPhase(t, w, Stopped)
		restart := ask(t, w, Restart, up)
		f.startGate <- struct{}{}
		wantAnswer(t, restart, nil)
		wantPhase(t, w, Running)
		cancel()
		<-done
	})
}

func TestOfTwoWishesTheLaterWins(t *testing.T) {
	t.Parallel()
	down := Desire{By: "test"}
	f := &fake{stopTakes: time.Second}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		synctest.Wait()
		restart := ask(t, w, Restart, up)
		stop := ask(t, w, Stop, down)
		wantAnswer(t, restart, ErrSuperseded)
		time.Sleep(time.Second)
		wantAnswer(t, stop, nil)
		wantPhase(t, w, Stopped)

		start := ask(t, w, Start, up)
		wantAnswer(t, start, nil)
		wantPhase(t, w, Running)
		stop = ask(t, w, Stop, down)
		wantPhase(t, w, Stopping)
		restart = ask(t, w, Restart, up)
		wantAnswer(t, stop, ErrSuperseded)
		time.Sleep(time.Second)
		wantAnswer(t, restart, nil)
		wantPhase(t, w, Running)
		restart = ask(t, w, Restart, up)
		synctest.Wait()
		w.Want(down) // the source was deleted meanwhile
		time.Sleep(time.Second)
		wantAnswer(t, restart, ErrUnwanted)
	})
}

func TestMissingBinaryIsABackoffOfThisSource(t *testing.T) {
	t.Parallel()
	f := &fake{startErr: func(n int) error {
		if n <= 3 {
			return &process.StartError{Program: "x", Reason: "no", Err: syscall.ENOENT}
		}
		return nil
	}}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		begin := time.Now()
		w.Want(up)
		time.Sleep(35 * time.Second)
		wantPhase(t, w, Running)
		for i, want := range []time.Duration{0, 5, 15, 35} {
			if got := f.starts[i].Sub(begin); got != want*time.Second {
				t.Errorf("start %d after %v, want %v", i, got, want*time.Second)
			}
		}
	})
}

func TestAChangedSpecEndsTheBackoffAndRestartsTheCrawler(t *testing.T) {
	t.Parallel()
	f := &fake{}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		synctest.Wait()
		other := *plain
		other.Key = "other"
		w.Want(Desire{Up: true, Spec: &other, By: "configuration"})
		wantPhase(t, w, Running)
		w.Want(Desire{Up: true, Spec: &other, By: "configuration"}) // nothing changed
		wantPhase(t, w, Running)
		if len(f.starts) != 2 {
			t.Errorf("%d starts", len(f.starts))
		}
		f.last().end(process.Exit{Code: 1})
		wantPhase(t, w, Backoff)
		w.Want(up)
		wantPhase(t, w, Running)
	})
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f     *fake
		begin func(w *Worker, f *fake)
		took  time.Duration
	}{
		"a crawler that ends":  {&fake{stopTakes: 3 * time.Second}, func(*Worker, *fake) {}, 3 * time.Second},
		"one that ignores it":  {&fake{deaf: true}, func(*Worker, *fake) {}, 15 * time.Second},
		"in backoff":           {&fake{}, func(_ *Worker, f *fake) { f.last().end(process.Exit{Code: 1}) }, 0},
		"in the middle of one": {&fake{deaf: true}, func(w *Worker, _ *fake) { w.Wish(Restart, up, func(error) {}); time.Sleep(10 * time.Second) }, 5 * time.Second},
		"what cannot be ended": {&fake{stuck: make(chan struct{})}, func(*Worker, *fake) {}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleShutdown(t, c.f, c.begin, c.took)
		})
	}
}

func bubbleShutdown(t *testing.T, f *fake, begin func(*Worker, *fake), took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		if f.stuck != nil {
			f.stuck = make(chan struct{})
		}
		w := New("src", Needs{Start: f.start, Observer: f, Logger: discard})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		w.Live(ctx, func() { close(done) })
		w.Want(up)
		synctest.Wait()
		begin(w, f)
		synctest.Wait()
		at := time.Now()
		cancel()
		<-done
		if got := time.Since(at); got != took {
			t.Errorf("took %v, want %v", got, took)
		}
		wantAnswer(t, ask(t, w, Restart, up), ErrShutdown)
	})
}

// undying is a crawler that the kernel does not let go, and that may not even be killed.
type undying struct {
	*fakeProcess
	kills *int
}

func (u undying) Kill() error {
	*u.kills++
	return errBroken
}

// What cannot be ended is tried again and again, and said once a minute: thousands may hang on the same mount.
func TestWhatCannotBeEndedIsSaidOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, deaf: true}
		var log bytes.Buffer // written by the worker's goroutine
		kills := 0
		w := New("src", Needs{Start: func(ctx context.Context, s process.Spec) (Process, error) {
			p, err := f.start(ctx, s)
			return undying{p.(*fakeProcess), &kills}, err
		}, Observer: f, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		w.Live(ctx, func() { close(done) })
		w.Want(up)
		synctest.Wait()
		w.Want(Desire{Spec: plain})
		lines := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(log.String(), what); got != want {
				t.Errorf("%d lines of %q, want %d", got, what, want)
			}
		}
		time.Sleep(plain.StopTimeout + 90*time.Second)
		lines("cannot be killed", 2)
		lines("does not end although", 2)
		if kills < 80 {
			t.Errorf("killed %d times", kills)
		}
		f.mu.Lock()
		f.stuck = make(chan struct{})
		f.mu.Unlock()
		f.last().end(process.Exit{Code: -1})
		time.Sleep(90 * time.Second)
		lines("something that a crawler started cannot be ended", 2)
		close(f.stuck)
		cancel()
		<-done
	})
}

func TestASecondSignalKills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, deaf: true}
		kill := make(chan struct{})
		w := New("src", Needs{Start: f.start, Observer: f, Logger: discard, Kill: kill})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		w.Live(ctx, func() { close(done) })
		w.Want(up)
		synctest.Wait()
		cancel()
		time.Sleep(time.Second)
		at := time.Now()
		close(kill)
		<-done
		if got := time.Since(at); got != 0 {
			t.Errorf("took %v", got)
		}
	})
}

func TestShutdownWhileStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, startGate: make(chan struct{})}
		w := New("src", Needs{Start: f.start, Observer: f, Logger: discard})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		w.Live(ctx, func() { close(done) })
		w.Want(up)
		wantPhase(t, w, Starting)
		cancel()
		<-done
		wantPhase(t, w, Stopped)
		equal(t, "causes", f.causes(), []Cause{Shutdown})
	})
}

func TestWhatCannotBeEndedHoldsUpItsSource(t *testing.T) {
	t.Parallel()
	f := &fake{}
	bubble(t, f, func(w *Worker, _ context.CancelFunc) {
		w.Want(up)
		synctest.Wait()
		f.mu.Lock()
		f.stuck = make(chan struct{})
		f.mu.Unlock()
		f.last().end(process.Exit{Code: 1})
		time.Sleep(time.Hour)
		wantPhase(t, w, Stopping)
		if len(f.starts) != 1 {
			t.Errorf("%d starts", len(f.starts))
		}
		close(f.stuck)
		time.Sleep(time.Hour)
		wantPhase(t, w, Running)
	})
}

var errBroken = errors.New("broken")
