package borrowed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"crawlkeeper/internal/testenv"
)

// loan is a process with a list and an allowed directory.
type loan struct {
	Place
	t     *testing.T
	terms *Terms
	root  string
}

func lend(t *testing.T) *loan {
	t.Helper()
	l := &loan{Place: Place{filepath.Join(t.TempDir(), "manager"), "p1"}, t: t, root: t.TempDir()}
	l.terms = &Terms{Process: "p1", Source: "a", Roots: []string{l.root, l.Temp()}, Prefix: "crawler:a:"}
	must(t, l.MakeTemp(nil))
	must(t, l.Lend(l.terms, nil))
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *loan) register(kind Kind, name string) error {
	return Register(l.t.Context(), l.List(), "p1", Entry{kind, name}, func(*Terms) error { return nil })
}

// force writes what a crawler that bypasses Register could.
func (l *loan) force(lines ...string) {
	l.t.Helper()
	f, err := os.OpenFile(l.List(), os.O_APPEND|os.O_WRONLY, 0)
	must(l.t, err)
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	must(l.t, errors.Join(err, f.Close()))
}

func (l *loan) forceEntry(kind Kind, name string) {
	l.force(fmt.Sprintf(`{"kind":%q,"name":%q}`, kind, name))
}

func (l *loan) path(parts ...string) string {
	return filepath.Join(append([]string{l.root}, parts...)...)
}

func write(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte("x"), 0o600))
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestReturnGivesBackInReverseOrder(t *testing.T) {
	t.Parallel()
	l := lend(t)
	write(t, l.path("file"))
	write(t, l.path("dir", "deep", "x"))
	must(t, os.Symlink("/etc", l.path("dir", "etc")))
	var order []string
	keys := func(_ context.Context, source, key string) error {
		order = append(order, source+" "+key, fmt.Sprint("file:", there(l.path("file"))))
		if key == "crawler:a:bad" {
			return errors.New("no")
		}
		return nil
	}
	for _, e := range []Entry{{Key, "crawler:a:first"}, {File, l.path("file")}, {Key, "crawler:a:bad"}, {Dir, l.path("dir")}, {File, l.path("never was")}, {File, l.path("file")}} {
		must(t, l.register(e.Kind, e.Name))
	}
	kept := l.Return(t.Context(), l.terms, keys)
	if diff := cmp.Diff([]Kept{{Entry{Key, "crawler:a:bad"}, "no"}}, kept); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a crawler:a:bad", "file:true", "a crawler:a:first", "file:false"}, order); diff != "" {
		t.Error(diff)
	}
	if there(l.path("dir")) || !there("/etc/passwd") {
		t.Error("the directory is there, or what a link in it points to is gone")
	}
	// What could not be given back stays on the list, and only that: all else may be somebody else's by now.
	write(t, l.path("file"))
	if kept := l.Return(t.Context(), l.terms, func(context.Context, string, string) error { return nil }); kept != nil {
		t.Error(kept)
	}
	if !there(l.path("file")) {
		t.Error("what was given back was taken again")
	}
	if there(l.List()) || there(l.Place.terms()) {
		t.Error("list or terms are left")
	}
	if kept := l.Return(t.Context(), l.terms, nil); kept != nil {
		t.Error("a second time:", kept)
	}
}

func TestReturnBelievesNoList(t *testing.T) {
	t.Parallel()
	l := lend(t)
	outside := filepath.Join(t.TempDir(), "precious")
	write(t, outside)
	must(t, os.Symlink(filepath.Dir(outside), l.path("link")))
	must(t, os.Symlink(outside, l.path("plain link")))
	must(t, os.Mkdir(l.path("real"), 0o755))
	must(t, os.Symlink("real", l.path("inner")))
	write(t, l.path("real", "x"))
	for _, name := range []string{"/etc", "/etc/passwd", outside, l.path("..", "x"), l.root, l.root + "/../" + filepath.Base(l.root) + "/real", l.path("link", "precious"), l.path("inner", "x"), "relative"} {
		l.forceEntry(File, name)
		l.forceEntry(Dir, name)
		if err := l.register(File, name); err == nil {
			t.Errorf("%s can be registered", name)
		}
	}
	l.forceEntry(Key, "crawler:b:x")
	l.forceEntry(Temp, l.path("real"))
	l.forceEntry(File, l.path("real")) // it is a directory
	l.forceEntry(Dir, l.path("plain link"))
	l.force("{", `{"kind":1}`, "")
	kept := l.Return(t.Context(), l.terms, func(context.Context, string, string) error { t.Error("a key of another was deleted"); return nil })
	if len(kept) != 9*2+3+1 {
		t.Errorf("%d were kept:", len(kept))
		for _, k := range kept {
			t.Log(k)
		}
	}
	if !there(outside) || !there(l.path("real", "x")) || !there("/etc/passwd") {
		t.Error("what was not allowed is gone")
	}
	if there(l.path("plain link")) {
		t.Error("a link was not removed as a link")
	}
}

// A racing goroutine swaps a directory on the way, and one that is being removed, for links to what must stay.
func TestLinksSwappedBetweenCheckAndUse(t *testing.T) {
	t.Parallel()
	l := lend(t)
	precious := l.path("precious") // in the allowed directory: os.Root alone would follow a link to it
	for i := range 20 {
		write(t, filepath.Join(precious, fmt.Sprint(i)))
		write(t, filepath.Join(precious, "sub", fmt.Sprint(i)))
	}
	way, evil := l.path("way"), l.path("evil")
	must(t, os.Symlink("precious", evil))
	stop := make(chan struct{})
	var racer sync.WaitGroup
	racer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if unix.Renameat2(unix.AT_FDCWD, way, unix.AT_FDCWD, evil, unix.RENAME_EXCHANGE) == nil {
				continue
			}
			if info, err := os.Lstat(evil); err == nil && info.IsDir() { // one of the two was removed
				_ = os.Symlink("precious", way)
			} else {
				_ = os.MkdirAll(filepath.Join(way, "sub"), 0o755)
			}
		}
	})
	worked := 0
	for i := range 2000 {
		for _, e := range []Entry{{File, filepath.Join(way, fmt.Sprint(i%20))}, {Dir, filepath.Join(way, "sub")}, {Dir, way}} {
			if l.terms.giveBack(t.Context(), e, nil) == nil {
				worked++
			}
		}
	}
	close(stop)
	racer.Wait()
	if worked == 0 {
		t.Error("nothing was ever removed: the race was none")
	}
	for i := range 20 {
		if !there(filepath.Join(precious, fmt.Sprint(i))) || !there(filepath.Join(precious, "sub", fmt.Sprint(i))) {
			t.Fatalf("%d behind the link is gone", i)
		}
	}
}

func TestReturnCrossesNoMount(t *testing.T) {
	t.Parallel()
	l := lend(t)
	inner := l.path("dir", "mount")
	must(t, os.MkdirAll(inner, 0o755))
	source := t.TempDir() // of the same file system: device numbers do not tell
	write(t, filepath.Join(source, "precious"))
	if err := syscall.Mount(source, inner, "", syscall.MS_BIND, ""); err != nil {
		t.Logf("no mount can be made here (%v): the rule is held by mountOf alone", err)
		return
	}
	defer syscall.Unmount(inner, syscall.MNT_DETACH)
	write(t, l.path("dir", "z"))
	must(t, l.register(Dir, l.path("dir")))
	l.forceEntry(File, filepath.Join(inner, "precious"))
	if kept := l.Return(t.Context(), l.terms, nil); len(kept) != 2 {
		t.Errorf("kept: %v", kept)
	}
	if !there(filepath.Join(source, "precious")) || there(l.path("dir", "z")) {
		t.Error("the mount was entered, or what lies beside it is left")
	}
}

func TestReturnIsBounded(t *testing.T) {
	t.Parallel()
	l := lend(t)
	write(t, l.path("file"))
	must(t, l.register(File, l.path("file")))
	must(t, l.register(Key, "crawler:a:hangs"))
	release := make(chan struct{})
	done := make(chan struct{})
	kept := l.Return(t.Context(), l.terms, func(context.Context, string, string) error { <-release; close(done); return nil })
	close(release)
	<-done
	if len(kept) != 1 || kept[0].Name != "crawler:a:hangs" || there(l.path("file")) {
		t.Errorf("kept: %v; the file is there: %v", kept, there(l.path("file")))
	}
	deep := l.path("deep")
	must(t, os.MkdirAll(filepath.Join(deep, strings.Repeat("d/", mostDepth+2)), 0o755))
	if err := l.terms.giveBack(t.Context(), Entry{Dir, deep}, nil); err == nil || !there(deep) {
		t.Error("a directory of any depth is walked:", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.terms.giveBack(gone, Entry{Dir, deep}, nil); !errors.Is(err, context.Canceled) {
		t.Error("a walk goes on after its end:", err)
	}
}

func TestAListIsWhole(t *testing.T) {
	t.Parallel()
	l := lend(t)
	l.force(`{"kind":"file","na`)
	must(t, os.Truncate(l.List(), int64(len(`{"kind":"file","na`)))) // killed in the middle
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			if err := l.register(Key, fmt.Sprint("crawler:a:", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	entries, unread, err := l.read()
	if len(entries) != 200 || unread != 1 || err != nil {
		t.Errorf("%d entries, %d unread, %v", len(entries), unread, err)
	}
	must(t, os.WriteFile(l.List(), []byte(strings.Repeat("{}\n", mostListed-1)), 0o600))
	must(t, l.register(Key, "crawler:a:x"))
	if err := l.register(Key, "crawler:a:y"); err == nil {
		t.Error("more may be registered than is given back")
	}
	must(t, os.Truncate(l.List(), mostBytes))
	if err := l.register(Key, "crawler:a:x"); err == nil {
		t.Error("a list may grow for ever")
	}
	must(t, os.Remove(l.List()))
	must(t, os.Symlink(l.path("elsewhere"), l.List()))
	if err := l.register(Key, "crawler:a:x"); err == nil {
		t.Error("a list that is a link is written to")
	}
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	l := lend(t)
	no := errors.New("no")
	e := Entry{Key, "crawler:a:x"}
	ctx := t.Context()
	for what, err := range map[string]error{
		"a stranger":      Register(ctx, l.List(), "p1", e, func(*Terms) error { return no }),
		"another process": Register(ctx, l.List(), "p2", e, func(*Terms) error { return nil }),
		"another file":    Register(ctx, "/etc/passwd", "passwd", e, func(*Terms) error { return nil }),
	} {
		if err == nil {
			t.Errorf("%s may register", what)
		}
	}
	must(t, os.Chmod(l.Place.terms(), 0o666))
	if _, err := l.Terms(); err == nil {
		t.Error("terms that others may write are believed")
	}
	must(t, os.Chmod(l.Place.terms(), 0o644))
	if testenv.Root(t, "gives a file to another user") {
		must(t, os.Chown(l.Place.terms(), 65534, 65534))
		if _, err := l.Terms(); err == nil {
			t.Error("terms of another user are believed")
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	l := lend(t)
	must(t, Place{l.Root, "p2"}.MakeTemp(nil))
	write(t, filepath.Join(l.Root, "p3"+listName))
	places, err := Places(l.Root)
	var ids []string
	for _, p := range places {
		ids = append(ids, p.ID)
	}
	if !slices.Equal(ids, []string{"p1", "p2", "p3"}) || err != nil {
		t.Error(ids, err)
	}
	if _, err := (Place{l.Root, "p3"}).Terms(); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	write(t, filepath.Join(l.Temp(), "x", "y"))
	must(t, l.RemoveTemp(t.Context()))
	if there(l.Temp()) {
		t.Error("the directory is left")
	}
	if places, err := Places(filepath.Join(l.Root, "none")); places != nil || err != nil {
		t.Error(places, err)
	}
}
