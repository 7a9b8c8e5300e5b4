package limits

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

func write(t *testing.T, file string, bytes int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheSizeOfADirectory(t *testing.T) {
	t.Parallel()
	dir, outside := filepath.Join(t.TempDir(), "temp"), t.TempDir()
	write(t, filepath.Join(outside, "huge"), 8<<20)
	write(t, filepath.Join(dir, "a", "b", "large"), 2<<20)
	write(t, filepath.Join(dir, "small"), 1<<20)
	before := measure(t.Context(), dir, mostEntries)
	if before.bytes < 3<<20 || before.bytes > 4<<20 || before.name != "a/b/large" || before.largest < 2<<20 {
		t.Errorf("%+v", before)
	}
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	must(t, os.Symlink(filepath.Join(outside, "huge"), filepath.Join(dir, "a", "link")))
	must(t, os.Link(filepath.Join(dir, "small"), filepath.Join(dir, "again")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	if after := measure(t.Context(), dir, mostEntries); after.bytes > before.bytes+64<<10 {
		t.Errorf("%d before, %d with links", before.bytes, after.bytes)
	}
	must(t, os.Symlink(outside, dir+"-link"))
	if got := measure(t.Context(), dir+"-link", mostEntries); got.bytes != 0 {
		t.Errorf("a directory that became a link has %+v", got)
	}
	if got := measure(t.Context(), dir+"-none", mostEntries); got.bytes != 0 {
		t.Errorf("no directory has %+v", got)
	}
	if got := measure(t.Context(), dir, 2); got.bytes >= before.bytes {
		t.Errorf("it is not bounded: %+v", got)
	}
}

// A file system that hangs holds up the sizes alone; directories are measured every 30 s.
func TestDirectoriesAreMeasuredBesideTheLooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld().watcher()
	tree := treeOf(Limits{TempSize: 1 << 20})
	tree.Temp = dir
	now := time.Now()
	lookAt := func() []Breach { return w.Look(t.Context(), now, nil, []Tree{tree}) }
	if found := lookAt(); len(found) != 0 {
		t.Fatal(found)
	}
	w.Wait()
	write(t, filepath.Join(dir, "dump"), 2<<20)
	now = now.Add(sizeEvery - time.Nanosecond)
	if found := lookAt(); len(found) != 0 || w.sizer.busy {
		t.Fatalf("%v, %v: measured too early", found, w.sizer.busy)
	}
	now = now.Add(time.Nanosecond)
	var found []Breach
	testenv.Eventually(t, time.Minute, "it is found to be too large", func() bool { found = append(found, lookAt()...); return len(found) > 0 })
	if why := found[0].Why; !strings.HasPrefix(why, "temp_size: 2 MiB of 1 MiB; the largest file is dump, 2 MiB") {
		t.Errorf("%s", why)
	}
}
