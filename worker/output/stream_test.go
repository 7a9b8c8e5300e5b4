package output

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestStreamTakesBothStreams(t *testing.T) {
	t.Parallel()
	stderr := new(slowWriter)
	r := newRig(t, SinksOptions{Forwarder: NewForwarder(stderr, Text)})
	o := r.output("news", Options{Mode: Forward})
	if !o.LastLineAt().IsZero() {
		t.Error("a line before the first")
	}
	c := r.start(o)
	c.print("one\ntwo")
	_, _ = c.stderr.WriteString("\xff\xfe no UTF-8\n")
	c.end()
	c.Drain(t.Context()) // again is allowed
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" news stdout | one\n", " news stdout | two\n", ` news stderr | \xff\xfe no UTF-8` + "\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is missing in %q", want, stderr.String())
		}
	}
	if s := o.Stats(); s.Lines != 3 || s.Bytes != 6+11 || s.LostForward != 0 {
		t.Errorf("stats: %+v", s)
	}
	if since := time.Since(o.LastLineAt()); since < 0 || since > time.Minute {
		t.Errorf("last line %v ago", since)
	}
	if tail := string(o.Tail()); !strings.Contains(tail, "one\n") || !strings.Contains(tail, "two\n") || len(tail) != 6+11+3 {
		t.Errorf("tail: %q", tail)
	}
}

func TestStreamRemembersItsOwnProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	o := r.output("news", Options{Mode: Forward})
	first := r.start(o)
	first.print("first\nINFO: Spider closed (finished)\n")
	first.print("%s", strings.Repeat("teardown\n", 2000))
	first.end()
	second := r.start(o)
	second.print("second\n")
	second.end()
	if got := first.ClosedReason(); got != "finished" {
		t.Errorf("reason of the first: %q", got)
	}
	if got := second.ClosedReason(); got != "" {
		t.Errorf("reason of the second: %q", got)
	}
	if diff := cmp.Diff([]string{"second"}, texts(second.Last(20))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"teardown", "second"}, texts(o.Last(2))); diff != "" {
		t.Error(diff)
	}
}

// The child's ends block, ours do not, and no program that is started gets any of them by accident.
func TestStreamDescriptors(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	s, err := r.output("news", Options{Mode: Forward}).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Drain(t.Context())
	check := func(name string, f *os.File, nonblocking bool) {
		conn, err := f.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Control(func(fd uintptr) {
			flags, _ := unix.FcntlInt(fd, unix.F_GETFL, 0)
			fdFlags, _ := unix.FcntlInt(fd, unix.F_GETFD, 0)
			if (flags&unix.O_NONBLOCK != 0) != nonblocking || fdFlags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: flags %#x, descriptor flags %#x", name, flags, fdFlags)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	check("stdout", s.Stdout, false)
	check("stderr", s.Stderr, false)
	for _, p := range s.pipes {
		check("our end", p.file, true)
	}
}

func TestModesWithoutPipes(t *testing.T) {
	t.Parallel()
	stdout, stderr := tempFile(t), tempFile(t)
	r := newRig(t, SinksOptions{Stdout: stdout, Stderr: stderr})
	discard, err := r.output("a", Options{}).Open()
	if err != nil || discard.Stdout != nil || discard.Stderr != nil {
		t.Errorf("discard: %v, %v, %v", discard.Stdout, discard.Stderr, err)
	}
	discard.Started()
	discard.Drain(t.Context())
	inherit, err := r.output("b", Options{Mode: Inherit}).Open()
	if err != nil || inherit.Stdout != stdout || inherit.Stderr != stderr {
		t.Errorf("inherit: %v, %v, %v", inherit.Stdout, inherit.Stderr, err)
	}
	inherit.Started()
	inherit.Drain(t.Context())
	if _, err := stdout.WriteString("still open"); err != nil {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	for _, opts := range []Options{{Mode: Inherit | Forward}, {Mode: File}, {Mode: 64}} {
		if _, err := r.Output("news", opts); err == nil {
			t.Errorf("%+v was taken", opts)
		}
	}
	o := r.output("news", Options{})
	o.Close()
	if err := o.Configure(Options{}); !errors.Is(err, errClosed) {
		t.Errorf("configure after close: %v", err)
	}
	if _, err := o.Open(); !errors.Is(err, errClosed) {
		t.Errorf("open after close: %v", err)
	}
}

// A start that failed leaves nothing open.
func TestStreamThatWasNeverStarted(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	s, err := r.output("news", Options{Mode: Forward}).Open()
	if err != nil {
		t.Fatal(err)
	}
	s.Drain(t.Context())
	s.Started()
	if _, err := s.Stdout.WriteString("x"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the child's end: %v", err)
	}
	for _, p := range s.pipes {
		if err := p.file.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("our end: %v", err)
		}
	}
}

// A crawler may close its standard output and live on.
func TestClosedStdout(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	o := r.output("news", Options{Mode: Forward})
	c := r.start(o)
	c.print("last words")
	_ = c.stdout.Close()
	eventually(t, "the half line came", func() bool { return o.Stats().Lines == 1 })
	_, _ = c.stderr.WriteString("still here\n")
	eventually(t, "the other stream goes on", func() bool { return o.Stats().Lines == 2 })
	c.end()
}

func TestGrandchildHoldsThePipe(t *testing.T) {
	t.Parallel()
	r := newRig(t, SinksOptions{})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		o := r.output("silent", Options{Mode: Forward})
		c := r.start(o)
		c.print("all of this\nis taken")
		before := time.Now()
		c.Drain(context.Background()) // the other ends are still open
		if took := time.Since(before); took > drainLimit {
			t.Errorf("the drain took %v", took)
		}
		if diff := cmp.Diff([]string{"all of this", "is taken"}, texts(o.Last(9))); diff != "" {
			t.Error(diff)
		}
		if _, err := c.stdout.WriteString("x"); !errors.Is(err, unix.EPIPE) {
			t.Errorf("our end is still open: %v", err)
		}
	})
	for name, ctx := range map[string]context.Context{"loud": context.Background(), "loud, no time": cancelled()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := r.output(name, Options{Mode: Forward})
			c := r.start(o)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				flood(c.stdout, 1<<40)
			}()
			eventually(t, "it is loud", func() bool { return o.Stats().Lines > 1000 })
			before := time.Now()
			c.Drain(ctx)
			if took := time.Since(before); took > 10*drainLimit {
				t.Errorf("the drain took %v", took)
			}
			<-ended // by EPIPE
		})
	}
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestLongLine(t *testing.T) {
	t.Parallel()
	stderr := new(slowWriter)
	r := newRig(t, SinksOptions{Forwarder: NewForwarder(stderr, Text)})
	o := r.output("news", Options{Mode: Forward})
	c := r.start(o)
	const size = 100 << 20
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range 100 {
		if _, err := c.stdout.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	c.print("\nnext\n")
	c.end()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	s := o.Stats()
	if s.Lines != 2 || s.CutLines != 1 || s.Bytes != MaxLine+4 || s.Bytes+s.CutBytes != size+4 {
		t.Errorf("stats: %+v", s)
	}
	all := stderr.String()
	if !strings.Contains(all, "x [cut]\n") || !strings.HasSuffix(all, " news stdout | next\n") || len(all) > MaxLine+200 {
		t.Errorf("%d bytes, at the end %q", len(all), all[max(0, len(all)-100):])
	}
}

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// flood writes numbered lines until n bytes are written or nobody takes them.
func flood(w *os.File, n int) {
	block := bytes.Repeat([]byte("2026-11-29 10:41:07 [scrapy.core.scraper] DEBUG: Scraped from <200 https://example.org/>\n"), 500)
	for n > 0 {
		written, err := w.Write(block[:min(n, len(block))])
		if err != nil {
			return
		}
		n -= written
	}
}
