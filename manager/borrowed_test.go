package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

// borrower is a crawler that registers what it takes, and says what happened in files: refused, env, late, ready.
const borrower = `
cd "$D"
if [ -e ready ]; then
  [ -e file ] || [ -e dir ] && : >late
  : >again
  exec sleep 1000
fi
$CK track file "$D/file" && : >file
$CK track dir "$D/dir" && mkdir dir && : >dir/x
$CK track dir "$TMPDIR/mine" && mkdir "$TMPDIR/mine"
$CK track key "crawler:$1:seen"
$CK track key "crawler:$1:b:seen"
for name in /etc/passwd "$D/../x" "$D" "$D/link/precious" ..; do $CK track file "$name" && echo "$name" >>allowed; done
for key in crawler:other:x "crawler:$1:start_urls" crawler:status crawler:; do $CK track key "$key" && echo "$key" >>allowed; done
env >env
: >ready
exec sleep 1000`

// borrowing has sources whose crawlers register what they take below a directory of their own.
func borrowing(t *testing.T, user string, codes ...string) (w *world, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "crawlkeeper-borrowed-") // another user can reach it
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	program := filepath.Join(dir, "crawlkeeper")
	data, err := os.ReadFile(testenv.Binary(t, "./cmd/crawlkeeper"))
	must(t, err)
	must(t, os.WriteFile(program, data, 0o755))
	argv, err := json.Marshal([]string{"sh", "-c", "export D=" + dir + "/$1 CK=" + program + " 2>>" + dir + "/$1/said\n" + borrower, "-", "{code}"})
	must(t, err)
	w = newWorld(t, fmt.Sprintf("  \"*\": {command: %s, user: %q, stop_timeout: 2s, track: {enabled: true, roots: [%q]}}\n", argv, user, dir+"/{code}"))
	for _, code := range codes {
		place := filepath.Join(dir, code)
		must(t, os.MkdirAll(place, 0o777))
		must(t, os.Chmod(place, 0o777))
		must(t, os.Symlink("/etc", filepath.Join(place, "link")))
		w.source(code)
		w.rdb.Set(t.Context(), "crawler:"+code+":seen", 1, 0)
	}
	return w, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func there(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return !errors.Is(err, fs.ErrNotExist)
}

func TestWhatACrawlerRegistersIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"", "nobody"} {
		if user != "" && !testenv.Root(t, "starts crawlers as another user") {
			continue
		}
		t.Run("as "+user, func(t *testing.T) {
			t.Parallel()
			w, dir := borrowing(t, user, "a", "a:b")
			w.start()
			at := filepath.Join(dir, "a")
			eventually(t, "the crawler has registered all", func() bool { return there(at, "ready") && there(dir, "a:b", "ready") })
			if said, err := os.ReadFile(filepath.Join(at, "allowed")); err == nil {
				t.Errorf("these can be registered:\n%s", said)
			}
			if !there(at, "file") || !there(at, "dir", "x") {
				said, _ := os.ReadFile(filepath.Join(at, "said"))
				t.Fatalf("it could not register:\n%s", said)
			}
			if code, said := w.asStranger(dir, at); code == 0 || !strings.Contains(said, "copy") {
				t.Errorf("a stranger with its environment: exit %d, %s", code, said)
			}
			w.must(control.Command{Action: control.ActionStop, Sources: []string{"a"}})
			if there(at, "file") || there(at, "dir") || !there(at, "ready") || !there("/etc/passwd") {
				t.Error("files are left, or more than was registered is gone")
			}
			if w.rdb.Exists(t.Context(), "crawler:a:seen").Val() != 0 || w.rdb.Exists(t.Context(), "crawler:a:b:seen").Val() != 1 {
				t.Error("its key is left, or that of a source whose code begins alike is gone")
			}
			eventually(t, "what was not given back is in the row", func() bool {
				return strings.Contains(testenv.Value[string](t, w.pg, `select coalesce(max(last_lines),'') from crawl_processes where source='a' and status='exited'`),
					"not given back: key crawler:a:b:seen: it belongs to the source a:b")
			})
		})
	}
}

// asStranger calls track with the environment of the crawler, from outside of its tree.
func (w *world) asStranger(dir, at string) (int, string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(at, "env"))
	must(w.t, err)
	said, err := os.Create(filepath.Join(w.t.TempDir(), "said"))
	must(w.t, err)
	defer said.Close()
	var env []string
	id := uuid.NewString()
	for line := range strings.Lines(string(text)) {
		env = append(env, strings.TrimSpace(line))
		if mine, ok := strings.CutPrefix(strings.TrimSpace(line), process.Marker+"="); ok {
			id = mine // a Spawner sets its own
		}
	}
	p, err := w.spawner().Start(context.Background(), process.Spec{
		ID: id, Argv: []string{filepath.Join(dir, "crawlkeeper"), "track", "file", filepath.Join(at, "stranger")}, Env: env, Stderr: said,
	})
	must(w.t, err)
	exit := p.Exit()
	_, err = p.Sweep(context.Background())
	must(w.t, err)
	out, _ := os.ReadFile(said.Name())
	return exit.Code, string(out)
}

// tempRoot finds the directory of the manager that runs.
func (w *world) tempRoot(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(fmt.Sprintf("%s/crawlkeeper-*-%08x", os.TempDir(), w.fingerprint()))
	if err != nil || len(found) != 1 {
		t.Fatalf("temporary directories: %v, %v", found, err)
	}
	return found[0]
}

func TestTheNextManagerGivesBackWhatAKilledOneTook(t *testing.T) {
	t.Parallel()
	w, dir := borrowing(t, "", "a")
	root := ""
	t.Cleanup(func() { _ = os.RemoveAll(root) }) // after the managers, which are killed
	s := w.spawner()
	at := filepath.Join(dir, "a")
	first := w.daemon(s, "one", "")
	eventually(t, "the crawler has registered all", func() bool { return there(at, "ready") })
	root = w.tempRoot(t)
	must(t, first.Signal(syscall.SIGKILL))
	<-first.Exited()
	if !there(at, "file") || !there(root) {
		t.Fatal("the killed manager gave something back; there is nothing to test")
	}
	w.daemon(s, "one", "")
	eventually(t, "the next crawler runs", func() bool { return there(at, "again") })
	if there(at, "late") || there(at, "file") || there(at, "dir") {
		t.Error("files were left when the next crawler started")
	}
	if w.rdb.Exists(t.Context(), "crawler:a:seen").Val() != 0 {
		t.Error("its key is left")
	}
	if entries, _ := os.ReadDir(root); len(entries) != 3 {
		t.Errorf("%d things lie in %s, want a directory, terms and a list of the one that runs", len(entries), root)
	}
}

func TestWhoseKeyItIs(t *testing.T) {
	t.Parallel()
	codes := map[string]bool{"a": true, "a:b": true, "c": true}
	for key, want := range map[string]string{
		"p:a:x": "a", "p:a:b": "a", "p:a:b:x": "a:b", "p:a:b:": "a:b", "p:a:bb:x": "a", "p:c:a:x": "c", "p:d:x": "", "q:a:x": "", "p:a": "", "p:": "", "p::a:": "",
	} {
		if got := ownerOf(key, "p:", func(c string) bool { return codes[c] }); got != want {
			t.Errorf("%s belongs to %q, want %q", key, got, want)
		}
	}
}
