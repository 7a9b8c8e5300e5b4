package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crawlkeeper/worker/borrowed"
)

// spareSpawner keeps directories as one with many processes does. It starts nothing.
func spareSpawner(t *testing.T) (*Spawner, func(id string) borrowed.Place) {
	t.Helper()
	s := &Spawner{files: newFiling(fileLimit)}
	s.live.Store(spareFrom)
	root := filepath.Join(t.TempDir(), "root")
	return s, func(id string) borrowed.Place { return borrowed.Place{Root: root, ID: id} }
}

func names(t *testing.T, s *Spawner, root string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, e.Name())
		if e.Name() != "b" && !s.Claimed(e.Name()) {
			t.Errorf("%s is not claimed: the janitor would remove it", e.Name())
		}
	}
	return found
}

func TestAnEmptyDirectoryIsForTheNextProcess(t *testing.T) {
	t.Parallel()
	s, place := spareSpawner(t)
	a, b := place("a"), place("b")
	ok(t, s.makeTemp(a, nil))
	made, err := os.Stat(a.Temp())
	ok(t, err)
	ok(t, s.putBack(a, nil))
	if got := names(t, s, a.Root); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("left: %v", got)
	}
	ok(t, s.makeTemp(b, nil))
	if info, err := os.Stat(b.Temp()); err != nil || !os.SameFile(info, made) {
		t.Errorf("another directory was made: %v", err)
	}
	if got := names(t, s, a.Root); !slices.Equal(got, []string{"b"}) || len(s.claims.ids) > 0 {
		t.Errorf("there: %v", got)
	}
	ok(t, s.putBack(b, nil))
	s.NoSpares()
	s.DropSpares()
	ok(t, s.makeTemp(b, nil))
	ok(t, s.putBack(b, nil))
	if got := names(t, s, a.Root); len(got) != 0 {
		t.Errorf("left at the end: %v", got)
	}
}

func TestADirectoryThatIsNotAsItWasMadeIsRemoved(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(dir string) error{
		"a file":         func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), nil, 0o600) },
		"a long name":    func(dir string) error { return os.WriteFile(filepath.Join(dir, strings.Repeat("x", 255)), nil, 0o600) },
		"a longish name": func(dir string) error { return os.WriteFile(filepath.Join(dir, strings.Repeat("x", 200)), nil, 0o600) },
		"a directory":    func(dir string) error { return os.Mkdir(filepath.Join(dir, "x"), 0o700) },
		"open to others": func(dir string) error { return os.Chmod(dir, 0o777) },
		"replaced by a link": func(dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.Symlink("/", dir)
		},
		"few processes": nil,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, place := spareSpawner(t)
			a := place("a")
			ok(t, s.makeTemp(a, nil))
			if spoil == nil {
				s.live.Add(-1)
			} else {
				ok(t, spoil(a.Temp()))
			}
			ok(t, s.putBack(a, nil))
			if got := names(t, s, a.Root); len(got) != 0 {
				t.Errorf("left: %v", got)
			}
		})
	}
}

func TestADirectoryOfAnotherUserIsNotForUs(t *testing.T) {
	t.Parallel()
	s, place := spareSpawner(t)
	a, b := place("a"), place("b")
	other := &borrowed.Owner{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())} // named, and so not the same
	ok(t, s.makeTemp(a, other))
	ok(t, s.putBack(a, other))
	ok(t, s.makeTemp(b, nil))
	if got := names(t, s, a.Root); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("there: %v", got)
	}
	s.NoSpares()
	s.DropSpares()
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
