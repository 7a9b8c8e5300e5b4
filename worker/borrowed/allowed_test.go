package borrowed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A crawler that may write above an allowed directory puts a link in its place.
func TestAnAllowedDirectoryThatBecameALink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		link, root string // below the test's directory
		owner      int
		followed   bool
	}{
		"the directory itself":                         {link: "root", root: "root"},
		"the directory itself, as the crawler":         {link: "root", root: "root", owner: 65534},
		"one above it, as the crawler":                 {link: "way", root: "way/root", owner: 65534},
		"one above it, as the manager or the operator": {link: "way", root: "way/root", followed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.owner != 0 && os.Getuid() != 0 {
				t.Skip("only root can give links away")
			}
			l := lend(t)
			base := t.TempDir()
			write(t, filepath.Join(base, "precious", "root", "x"))
			target := "precious/root"
			if c.link != c.root {
				target = "../" + filepath.Base(base) + "/precious"
			}
			must(t, os.Symlink(target, filepath.Join(base, c.link)))
			if c.owner != 0 {
				must(t, os.Lchown(filepath.Join(base, c.link), c.owner, c.owner))
			}
			l.terms.Roots = []string{filepath.Join(base, c.root)}
			l.forceEntry(File, filepath.Join(base, c.root, "x"))
			kept := l.Return(t.Context(), l.terms, nil)
			if gone := !there(filepath.Join(base, "precious", "root", "x")); gone != c.followed || (len(kept) == 0) != c.followed {
				t.Errorf("it is gone: %v, kept %v", gone, kept)
			}
		})
	}
}

func TestLinksInACircle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	if _, err := openAllowed(filepath.Join(dir, "loop", "x")); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Error(err)
	}
}

// The manager's directory for temporary files has a name that can be foretold.
func TestADirectoryThatSomebodyElseHasMade(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give directories away")
	}
	root := filepath.Join(t.TempDir(), "manager")
	must(t, os.Mkdir(root, 0o755))
	must(t, os.Chown(root, 65534, 65534))
	if err := (Place{root, "p1"}).MakeTemp(nil); err == nil || there(filepath.Join(root, "p1")) {
		t.Errorf("it is used: %v", err)
	}
	must(t, os.Remove(root))
	must(t, os.Symlink(t.TempDir(), root))
	if err := (Place{root, "p1"}).MakeTemp(nil); err == nil {
		t.Error("a link is used")
	}
	must(t, os.Remove(root))
	must(t, os.Mkdir(root, 0o755)) // of our own, for other things too
	must(t, (Place{root, "p1"}).MakeTemp(&Owner{Uid: 65534, Gid: 65534}))
	if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a directory that was there before is changed: %v, %v", info.Mode(), err)
	}
	fresh := filepath.Join(t.TempDir(), "manager")
	must(t, (Place{fresh, "p1"}).MakeTemp(nil))
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestMountsOfAnOldKernel(t *testing.T) {
	t.Parallel()
	one, other := unix.Statx_t{Dev_minor: 1, Mnt_id: 7}, unix.Statx_t{Dev_minor: 2, Mnt_id: 7}
	if mountIn(&one) == mountIn(&other) {
		t.Error("two devices are one mount")
	}
	one.Mask, other.Mask = unix.STATX_MNT_ID, unix.STATX_MNT_ID
	if mountIn(&one) != 7 || mountIn(&other) != 7 {
		t.Error("the number of the mount is not used")
	}
}
