package output

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// fileRig is Sinks whose log of its own can be read, with one log file.
type fileRig struct {
	*rig
	path string
	log  *slowWriter
}

func newFileRig(t *testing.T, open openFunc) *fileRig {
	t.Helper()
	log := new(slowWriter)
	sinks, err := NewSinks(SinksOptions{
		Forwarder: NewForwarder(new(slowWriter), Text),
		Logger:    slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if open != nil {
		sinks.files.open = open
	}
	return &fileRig{rig: runSinks(t, sinks), path: filepath.Join(t.TempDir(), "logs", "news.log"), log: log}
}

func (r *fileRig) file(opts FileOptions) *Output {
	opts.Path = r.path
	return r.output("news", Options{Mode: File, File: opts})
}

func content(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// rotated returns the contents of the rotated files, the oldest first, and how many of them are compressed.
func (r *fileRig) rotated() (contents []string, compressed int) {
	r.t.Helper()
	files, err := rotatedFiles(r.path)
	if err != nil {
		return nil, 0
	}
	for _, f := range slices.Backward(files) {
		data, err := os.ReadFile(f.path)
		if errors.Is(err, fs.ErrNotExist) { // just compressed or removed
			return nil, 0
		}
		if err != nil {
			r.t.Fatal(err)
		}
		if f.kind == compressedName {
			compressed++
			zip, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				r.t.Fatal(err)
			}
			if data, err = io.ReadAll(zip); err != nil {
				r.t.Fatal(err)
			}
		}
		contents = append(contents, string(data))
	}
	return contents, compressed
}

func TestFileTakesLines(t *testing.T) {
	t.Parallel()
	r := newFileRig(t, nil)
	o := r.file(FileOptions{})
	c := r.start(o)
	c.print("one\n\xff two")
	c.end()
	c = r.start(o)
	c.print("three\n")
	c.end()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if got := content(r.path); got != "one\n\xff two\nthree\n" {
		t.Errorf("%q", got)
	}
}

func TestForwardAndFile(t *testing.T) {
	t.Parallel()
	stderr := new(slowWriter)
	r := newRig(t, SinksOptions{Forwarder: NewForwarder(stderr, Text)})
	path := filepath.Join(t.TempDir(), "news.log")
	c := r.start(r.output("news", Options{Mode: Forward | File, File: FileOptions{Path: path}}))
	c.print("both\n")
	c.end()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if content(path) != "both\n" || !strings.HasSuffix(stderr.String(), " news stdout | both\n") {
		t.Errorf("file %q, forwarded %q", content(path), stderr.String())
	}
}

// Files are rotated between lines, compressed, and only so many are kept.
func TestRotationBySize(t *testing.T) {
	t.Parallel()
	r := newFileRig(t, nil)
	o := r.file(FileOptions{MaxBytes: 1000, Keep: 3, Compress: true})
	c := r.start(o)
	const lines = 200
	for i := range lines {
		c.print("line %03d %s\n", i, strings.Repeat("x", 90)) // 100 bytes
	}
	c.print("%s\n", strings.Repeat("y", 5000)) // longer than a file may be
	c.print("last\n")
	c.end()
	eventually(t, "all is written", func() bool { return content(r.path) == "last\n" })
	eventually(t, "three are left, compressed", func() bool {
		contents, compressed := r.rotated()
		return len(contents) == 3 && compressed == 3
	})
	contents, _ := r.rotated()
	for i, want := range []string{"line 180", "line 190", "yyyy"} {
		if !strings.HasPrefix(contents[i], want) || !strings.HasSuffix(contents[i], "\n") || (i < 2 && len(contents[i]) != 1000) {
			t.Errorf("file %d: %d bytes, %.20q", i, len(contents[i]), contents[i])
		}
	}
	if got := content(r.path); got != "last\n" {
		t.Errorf("%q", got)
	}
	if s := o.Stats(); s.LostFile != 0 {
		t.Errorf("%+v", s)
	}
}

// What an earlier manager rotated is compressed and counted too; what has nothing to do with this log file is left alone.
func TestRotationFindsOldFiles(t *testing.T) {
	t.Parallel()
	r := newFileRig(t, nil)
	dir := filepath.Dir(r.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"news-2025-01-01T00-00-00.000.log", "news-2025-01-02T00-00-00.000.log.gz", "news-2026-01-03T00-00-00.000.log", "news-2026-01-03T00-00-00.000.log.gz.tmp",
		"news-2.log", "news-2-2025-01-01T00-00-00.000.log", "news-2025-01-01T00-00-00.000.txt", "other.log",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := r.start(r.file(FileOptions{MaxBytes: 10, Keep: 2, Compress: true}))
	c.print("0123456789\nthe end\n")
	c.end()
	eventually(t, "all is written", func() bool { return content(r.path) == "the end\n" })
	eventually(t, "two are left, compressed", func() bool {
		contents, compressed := r.rotated()
		return len(contents) == 2 && compressed == 2
	})
	var names []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"news-2-2025-01-01T00-00-00.000.log", "news-2.log", "news-2025-01-01T00-00-00.000.txt", "news-2026-01-03T00-00-00.000.log.gz", "news.log", "other.log"}
	slices.Sort(want)
	names = slices.DeleteFunc(names, func(n string) bool {
		return strings.HasPrefix(n, "news-"+time.Now().UTC().Format("2006-")) && !slices.Contains(want, n)
	})
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// A log file that was deleted or moved away comes back within a second.
func TestFileComesBack(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(path string) error{
		"deleted":           os.Remove,
		"moved":             func(path string) error { return os.Rename(path, path+".moved") },
		"directory deleted": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
		},
		"cut short": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFileRig(t, nil)
			c := r.start(r.file(FileOptions{}))
			c.print("before\n")
			eventually(t, "the first line is written", func() bool { return content(r.path) == "before\n" })
			if err := remove(r.path); err != nil {
				t.Fatal(err)
			}
			n := 0
			eventually(t, "the file is back", func() bool {
				c.print("after %d\n", n)
				n++
				return strings.HasSuffix(content(r.path), fmt.Sprintf("after %d\n", n-1))
			})
			c.end()
		})
	}
}

// Age, looking for the file and the pause after a failure, in a bubble's time. The file system is real, but nothing blocks on it.
func TestFileAndTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "news.log")
	synctest.Test(t, func(t *testing.T) {
		log := new(slowWriter)
		set := newFiles(slog.New(slog.NewTextHandler(log, nil)))
		f := set.acquire(FileOptions{Path: path, MaxAge: time.Hour})
		write := func(line string) int { return f.write([]byte(line)) }

		write("1\n")
		time.Sleep(59 * time.Minute)
		write("2\n")
		time.Sleep(time.Minute)
		write("3\n")
		files, _ := rotatedFiles(path)
		if len(files) != 1 || content(files[0].path) != "1\n2\n" || content(path) != "3\n" {
			t.Errorf("after an hour: %v, %q", files, content(path))
		}

		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write("not looked for yet\n")
		if _, err := os.Stat(path); err == nil {
			t.Error("looked for twice in a second")
		}
		time.Sleep(lookEvery)
		write("4\n")
		if got := content(path); got != "4\n" {
			t.Errorf("after a second: %q", got)
		}

		set.open = func(string) (diskFile, error) { return nil, unix.ENOSPC }
		_ = f.closeDisk()
		lost := write("5\n") + write("6\n6\n")
		set.open = openLogFile
		lost += write("7\n")
		if lost != 4 || set.errors.Load() != 1 {
			t.Errorf("lost %d lines, %d errors", lost, set.errors.Load())
		}
		time.Sleep(retryAfter)
		write("8\n")
		if got := content(path); got != "4\n8\n" {
			t.Errorf("after the failure: %q", got)
		}
		if got := log.String(); strings.Count(got, "lines are lost") != 1 || strings.Count(got, "lost_lines=4") != 1 {
			t.Errorf("log: %s", got)
		}
		_ = f.closeDisk()
	})
}

// fullDisk is a file on a disk with little room.
type fullDisk struct {
	*os.File
	room *atomic.Int64
}

func (d fullDisk) Write(b []byte) (int, error) {
	room := d.room.Load()
	if int64(len(b)) <= room {
		d.room.Add(int64(-len(b)))
		return d.File.Write(b)
	}
	n, _ := d.File.Write(b[:room])
	d.room.Store(0)
	return n, unix.ENOSPC
}

// A full disk costs lines, counted, and tears none; when there is room again, it goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var room atomic.Int64
	room.Store(1005)
	r := newFileRig(t, func(path string) (diskFile, error) {
		f, err := openLogFile(path)
		if err != nil {
			return nil, err
		}
		return fullDisk{f.(*os.File), &room}, nil
	})
	o := r.file(FileOptions{})
	c := r.start(o)
	c.print("%s", strings.Repeat("123456789\n", 200))
	eventually(t, "the rest is lost", func() bool { return o.Stats().LostFile == 100 })
	if got := content(r.path); got != strings.Repeat("123456789\n", 100) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	room.Store(1 << 20)
	eventually(t, "it goes on", func() bool {
		c.print("again\n")
		return strings.Contains(content(r.path), "9\nagain\n")
	})
	c.end()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if s := o.Stats(); s.LostFile+uint64(strings.Count(content(r.path), "\n")) != s.Lines || r.Stats().FileLost != s.LostFile {
		t.Errorf("%+v, %+v", s, r.Stats())
	}
	if got := r.log.String(); !strings.Contains(got, "no space left on device") || !strings.Contains(got, "written again") {
		t.Errorf("log: %s", got)
	}
}

// A full disk of many files, on which space comes and goes, makes a line each 10 s, which tells of all files and lines.
func TestAFullDiskOfManyFilesIsAFewLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(slowWriter)
		set := newFiles(slog.New(slog.NewTextHandler(log, nil)))
		room := false
		set.open = func(string) (diskFile, error) {
			if room {
				return goodDisk{}, nil
			}
			return nil, unix.ENOSPC
		}
		var all []*logFile
		for i := range 1000 {
			all = append(all, set.acquire(FileOptions{Path: fmt.Sprint("/", i)}))
		}
		lost := 0
		for range 20 { // a minute
			for _, room = range []bool{false, true} {
				for _, f := range all {
					lost += f.write([]byte("x\n"))
					_ = f.closeDisk()
				}
				time.Sleep(1500 * time.Millisecond)
			}
		}
		if err := set.close(); err != nil {
			t.Error(err)
		}
		text, told := log.String(), 0
		for _, n := range regexp.MustCompile(`lost_lines=(\d+)`).FindAllStringSubmatch(text, -1) {
			lines, _ := strconv.Atoi(n[1])
			told += lines
		}
		if lost != 20*1000 || told != lost {
			t.Errorf("%d lines were lost, the log tells of %d", lost, told)
		}
		if lines := strings.Count(text, "\n"); lines > 2*8 || strings.Count(text, "files=1000") < 10 {
			t.Errorf("%d lines: %s", lines, text)
		}
	})
}

// goodDisk takes all.
type goodDisk struct{ *os.File }

func (goodDisk) Write(b []byte) (int, error) { return len(b), nil }
func (goodDisk) Close() error                { return nil }
func (goodDisk) Stat() (os.FileInfo, error)  { return os.Stat("/dev/null") }

// stuckDisk hangs in every write until it is let go.
type stuckDisk struct {
	*os.File
	gate    *sync.RWMutex
	writing *atomic.Int64
}

func (d stuckDisk) Write(b []byte) (int, error) {
	d.writing.Add(1)
	defer d.writing.Add(-1)
	d.gate.RLock()
	defer d.gate.RUnlock()
	return d.File.Write(b)
}

// A disk that hangs holds a few goroutines and bounded memory, whatever many crawlers write, and holds up none of them.
// Not beside other tests, as it measures memory.
func TestStuckDisk(t *testing.T) {
	var gate sync.RWMutex
	var writing atomic.Int64
	gate.Lock()
	release := sync.OnceFunc(gate.Unlock)
	r := newFileRig(t, func(path string) (diskFile, error) {
		f, err := openLogFile(path)
		if err != nil {
			return nil, err
		}
		return stuckDisk{f.(*os.File), &gate, &writing}, nil
	})
	defer release()
	before := heap()
	var outs []*Output
	for i := range 20 {
		o := r.output(fmt.Sprint(i), Options{Mode: File, File: FileOptions{Path: fmt.Sprintf("%s.%d", r.path, i)}})
		c := r.start(o)
		flood(c.stdout, 4<<20)
		c.end()
		outs = append(outs, o)
	}
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if n := writing.Load(); n != fileWriters {
		t.Errorf("%d writes hang", n)
	}
	release()
	eventually(t, "all that waited is written", func() bool { return r.files.memory.used.Load() == 0 })
	for i, o := range outs {
		s := o.Stats()
		if written := strings.Count(content(fmt.Sprintf("%s.%d", r.path, i)), "\n"); uint64(written)+s.LostFile != s.Lines || s.LostFile == 0 {
			t.Errorf("source %d: %d written, %+v", i, written, s)
		}
	}
	runtime.KeepAlive(outs)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if got := r.log.String(); !strings.Contains(got, "written too slowly") || !strings.Contains(got, "path="+r.path) {
		t.Errorf("log: %s", got)
	}
}

// A disk that works gets every line of loud crawlers, over many rotations.
func TestLoudCrawlersFile(t *testing.T) {
	t.Parallel()
	r := newFileRig(t, nil)
	o := r.file(FileOptions{MaxBytes: 1 << 20, Keep: 100})
	c := r.start(o)
	const lines = 60_000
	var block bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&block, "%d %s\n", i, strings.Repeat("x", i%300))
	}
	for b := range slices.Chunk(block.Bytes(), 100_001) {
		if _, err := c.stdout.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	c.end()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	contents, _ := r.rotated()
	if len(contents) < 8 {
		t.Errorf("%d rotated files", len(contents))
	}
	if all := strings.Join(contents, "") + content(r.path); all != block.String() {
		t.Errorf("%d bytes of %d; %+v", len(all), block.Len(), o.Stats())
	}
}

// Sources that share a path share the file; each gets its own losses counted.
func TestSharedFile(t *testing.T) {
	t.Parallel()
	var room atomic.Int64
	r := newFileRig(t, func(path string) (diskFile, error) {
		f, err := openLogFile(path)
		if err != nil {
			return nil, err
		}
		return fullDisk{f.(*os.File), &room}, nil
	})
	a, b := r.file(FileOptions{}), r.file(FileOptions{})
	ca, cb := r.start(a), r.start(b)
	ca.print("a\na\n")
	cb.print("b\n")
	ca.end()
	cb.end()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if a.Stats().LostFile != 2 || b.Stats().LostFile != 1 {
		t.Errorf("%+v, %+v", a.Stats(), b.Stats())
	}
}

// What is no regular file is refused, and nothing hangs on it.
func TestNoRegularFile(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"fifo":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"device":    func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			if f, err := openLogFile(path); err == nil {
				t.Errorf("opened: %v", f)
			}
		})
	}
}

// A file that nobody uses any more is written to its end and closed; one that is used again stays.
func TestFileIsClosedWithItsLastUser(t *testing.T) {
	t.Parallel()
	r := newFileRig(t, nil)
	o := r.file(FileOptions{})
	c := r.start(o)
	if err := o.Configure(Options{Mode: Forward}); err != nil { // for the next process
		t.Fatal(err)
	}
	c.print("still goes to the file\n")
	c.end()
	eventually(t, "the file is closed", func() bool {
		r.files.mu.Lock()
		defer r.files.mu.Unlock()
		return len(r.files.byPath) == 0
	})
	if got := content(r.path); got != "still goes to the file\n" {
		t.Errorf("%q", got)
	}
}

// Whatever the sizes are, files hold whole lines, none is lost and none is larger than it may be unless it is one line.
func TestRotationKeepsLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		limit := rapid.Int64Range(1, 60).Draw(t, "limit")
		set := newFiles(slog.New(slog.DiscardHandler))
		path := filepath.Join(dir, fmt.Sprint(n), "x.log")
		f := set.acquire(FileOptions{Path: path, MaxBytes: limit, Keep: 1000})
		defer func() { _ = f.closeDisk() }()
		var all strings.Builder
		for i, lengths := range rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 30), 1, 5), 0, 8).Draw(t, "writes") {
			var block strings.Builder
			for _, n := range lengths {
				fmt.Fprintf(&block, "%d%s\n", i, strings.Repeat("x", n))
			}
			if lost := f.write([]byte(block.String())); lost != 0 {
				t.Fatalf("lost %d lines", lost)
			}
			all.WriteString(block.String())
		}
		var got strings.Builder
		files, _ := rotatedFiles(path)
		for _, name := range append(slices.Collect(reversedPaths(files)), path) {
			data, err := os.ReadFile(name)
			if err != nil && all.Len() > 0 && name != path {
				t.Fatal(err)
			}
			if int64(len(data)) > limit && bytes.Count(data, []byte("\n")) != 1 {
				t.Fatalf("%d bytes in a file of at most %d: %q", len(data), limit, data)
			}
			got.Write(data)
		}
		if got.String() != all.String() {
			t.Fatal(cmp.Diff(all.String(), got.String()))
		}
	})
}

func reversedPaths(files []rotatedFile) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, f := range slices.Backward(files) {
			if !yield(f.path) {
				return
			}
		}
	}
}
