package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A reader of standard error that is stuck does not hold up a crawler, costs bounded memory, and what was lost is counted to the line
// and mentioned once. Not beside other tests, as it measures memory.
func TestStuckStandardError(t *testing.T) {
	stderr := new(slowWriter)
	forwarder := NewForwarder(stderr, Text)
	r := newRig(t, SinksOptions{Forwarder: forwarder})
	o := r.output("loud", Options{Mode: Forward})
	quiet := r.output("quiet", Options{Mode: Forward})
	release := stderr.hold()
	defer release()
	before := heap()
	c := r.start(o)
	flood(c.stdout, 64<<20)
	c.end()
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	lost := o.Stats().LostForward
	if lost == 0 || lost >= o.Stats().Lines {
		t.Fatalf("%d of %d lines lost", lost, o.Stats().Lines)
	}
	q := r.start(quiet)
	q.print("a line of a quiet source finds room\n")
	q.end()
	release()
	eventually(t, "the loss is mentioned", func() bool { return strings.Contains(stderr.String(), "too slow lines=") })
	again := r.start(o)
	again.print("it goes on\n")
	again.end()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	all := stderr.String()
	mentions := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d WRN .* lines=(\d+)$`).FindAllStringSubmatch(all, -1)
	if len(mentions) != 1 || mentions[0][1] != strconv.FormatUint(lost, 10) {
		t.Errorf("lost %d, mentioned %v", lost, mentions)
	}
	if !strings.Contains(all, "quiet stdout | a line of a quiet source") || quiet.Stats().LostForward != 0 {
		t.Error("the quiet source lost its line")
	}
	written := uint64(strings.Count(all, "loud stdout | "))
	if s := o.Stats(); written+s.LostForward != s.Lines || forwarder.Lost() != s.LostForward {
		t.Errorf("%d written, %+v", written, s)
	}
	if !strings.HasSuffix(all, "loud stdout | it goes on\n") {
		t.Error("it does not go on")
	}
}

// heap is what lives on the heap, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A reader that works gets every line, however fast the crawlers are, and no line is torn.
func TestLoudCrawlersWholeLines(t *testing.T) {
	t.Parallel()
	stderr := tempFile(t)
	r := newRig(t, SinksOptions{Forwarder: NewForwarder(stderr, JSON)})
	const lines = 5000
	var crawlers sync.WaitGroup
	for i := range 8 {
		o := r.output("news-"+strconv.Itoa(i), Options{Mode: Forward})
		c := r.start(o)
		crawlers.Go(func() {
			for n := range lines {
				c.print("%d %s\n", n, strings.Repeat("x", n%300))
			}
			c.end()
			if s := o.Stats(); s.Lines != lines || s.LostForward != 0 {
				t.Errorf("stats: %+v", s)
			}
		})
	}
	crawlers.Wait()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	data, err := os.ReadFile(stderr.Name())
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(data)) {
		var l struct{ Source, Stream, Line string }
		if err := json.Unmarshal([]byte(row), &l); err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		n := next[l.Source]
		if l.Line != fmt.Sprintf("%d %s", n, strings.Repeat("x", n%300)) || l.Stream != Stdout {
			t.Fatalf("line %d of %s is %+v", n, l.Source, l)
		}
		next[l.Source]++
	}
	if len(next) != 8 {
		t.Errorf("lines of %d sources", len(next))
	}
}

// A standard error that fails costs lines, counted, and works again when it works again.
func TestFailingStandardError(t *testing.T) {
	t.Parallel()
	stderr := new(slowWriter)
	forwarder := NewForwarder(stderr, JSON)
	r := newRig(t, SinksOptions{Forwarder: forwarder})
	c := r.start(r.output("news", Options{Mode: Forward}))
	stderr.fail(unix.EPIPE)
	c.print("lost\n")
	eventually(t, "the line is lost", func() bool { return forwarder.Lost() == 1 })
	stderr.fail(nil)
	c.print("kept\n")
	eventually(t, "the loss is mentioned", func() bool { return strings.Contains(stderr.String(), `"level":"WARN"`) })
	c.end()
	if all := stderr.String(); !strings.Contains(all, `"line":"kept"`) || !strings.Contains(all, `"lines":1}`) {
		t.Error(all)
	}
}

// Half a write that fails does not tear the line that follows.
func TestTornWrite(t *testing.T) {
	t.Parallel()
	w := &tearingWriter{}
	forwarder := NewForwarder(w, Text)
	r := newRig(t, SinksOptions{Forwarder: forwarder})
	eventually(t, "it runs", forwarder.runs)
	_, _ = forwarder.Write([]byte("first line\n"))
	eventually(t, "the line is lost", func() bool { return forwarder.Lost() == 1 })
	_, _ = forwarder.Write([]byte("second line\n"))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(w.String(), "first\nsecond line\n") {
		t.Errorf("%q", w.String())
	}
}

func (f *Forwarder) runs() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.phase == forwardRunning
}

// tearingWriter writes five bytes of the first write.
type tearingWriter struct {
	slowWriter
	once bool
}

func (w *tearingWriter) Write(b []byte) (int, error) {
	if w.once {
		return w.slowWriter.Write(b)
	}
	w.once = true
	n, _ := w.slowWriter.Write(b[:5])
	return n, errors.New("torn")
}

// The manager's own log goes the same way: at once before and after the run, without ever blocking in between.
func TestManagersLog(t *testing.T) {
	t.Parallel()
	stderr := new(slowWriter)
	forwarder := NewForwarder(stderr, Text)
	logger := slog.New(slog.NewTextHandler(forwarder, nil))
	logger.Info("before")
	if !strings.Contains(stderr.String(), "before") {
		t.Error("what was logged before the run is missing")
	}
	r := newRig(t, SinksOptions{Forwarder: forwarder})
	eventually(t, "it runs", forwarder.runs)
	release := stderr.hold()
	defer release()
	long := strings.Repeat("x", 64<<10)
	for range 200 {
		logger.Info(long)
	}
	if forwarder.Lost() == 0 {
		t.Error("12 MB wait for a stuck standard error")
	}
	release()
	eventually(t, "what waited is written", func() bool { return strings.Contains(stderr.String(), "too slow lines=") })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	logger.Info("after")
	if all := stderr.String(); !strings.Contains(all, "msg=after\n") || !strings.Contains(all, "too slow lines=") {
		t.Errorf("%d bytes", len(all))
	}
}

// Run ends although standard error is stuck, and says so.
func TestRunEndsWhenStuck(t *testing.T) {
	t.Parallel()
	stderr := new(slowWriter)
	forwarder := NewForwarder(stderr, Text)
	r := newRig(t, SinksOptions{Forwarder: forwarder})
	release := stderr.hold()
	defer release()
	c := r.start(r.output("news", Options{Mode: Forward}))
	c.print("never written\n")
	c.end()
	if err := r.stop(); !errors.Is(err, errStuck) {
		t.Errorf("Run returned %v", err)
	}
	if n, err := forwarder.Write([]byte("dropped\n")); n != 8 || err != nil { // does not hang
		t.Error(n, err)
	}
}

// The descriptor is another than 2, so that a reader that is gone is an error.
func TestOwnStderr(t *testing.T) {
	t.Parallel()
	f, err := OwnStderr()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if f.Fd() <= 2 {
		t.Errorf("descriptor %d", f.Fd())
	}
}
