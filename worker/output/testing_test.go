package output

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a set of running Sinks.
type rig struct {
	*Sinks
	t    testing.TB
	stop func() error // ends Run and returns what it returned
}

// newRig runs Sinks until the test ends.
func newRig(t testing.TB, opts SinksOptions) *rig {
	t.Helper()
	if opts.Forwarder == nil {
		opts.Forwarder = NewForwarder(new(slowWriter), Text)
	}
	sinks, err := NewSinks(opts)
	if err != nil {
		t.Fatal(err)
	}
	return runSinks(t, sinks)
}

func runSinks(t testing.TB, sinks *Sinks) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sinks.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return &rig{Sinks: sinks, t: t, stop: stop}
}

func (r *rig) output(source string, opts Options) *Output {
	r.t.Helper()
	o, err := r.Output(source, opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(o.Close)
	return o
}

// child plays the process: the ends of the pipes that a fork would have copied.
type child struct {
	*Stream
	stdout, stderr *os.File
}

func (r *rig) start(o *Output) *child {
	r.t.Helper()
	s, err := o.Open()
	if err != nil {
		r.t.Fatal(err)
	}
	c := &child{Stream: s, stdout: duplicate(r.t, s.Stdout), stderr: duplicate(r.t, s.Stderr)}
	s.Started()
	r.t.Cleanup(func() {
		c.exit()
		s.Drain(context.Background())
	})
	return c
}

// exit closes the child's ends, as its end would.
func (c *child) exit() {
	_ = c.stdout.Close()
	_ = c.stderr.Close()
}

// end is an exit and the drain that follows it.
func (c *child) end() {
	c.exit()
	c.Drain(context.Background())
}

func (c *child) print(format string, args ...any) {
	if _, err := fmt.Fprintf(c.stdout, format, args...); err != nil {
		panic(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// slowWriter keeps what is written. While it is held, writes hang.
type slowWriter struct {
	held sync.RWMutex // held for writing: stuck

	mu   sync.Mutex
	data bytes.Buffer
	err  error // returned by every write
}

func (w *slowWriter) Write(b []byte) (int, error) {
	w.held.RLock()
	defer w.held.RUnlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	return w.data.Write(b)
}

// hold makes writes hang until the function that is returned is called.
func (w *slowWriter) hold() (release func()) {
	w.held.Lock()
	return sync.OnceFunc(w.held.Unlock)
}

func (w *slowWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *slowWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data.String()
}

func texts(lines []Line) []string {
	var all []string
	for _, l := range lines {
		all = append(all, string(l.Text))
	}
	return all
}
