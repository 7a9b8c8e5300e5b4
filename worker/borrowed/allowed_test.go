package borrowed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// giveAway makes something another user's. Who may not do that is another user until the test is over, or until back.
func giveAway(t *testing.T, path string) (back func()) {
	t.Helper()
	if os.Getuid() == 0 {
		must(t, os.Lchown(path, 65534, 65534))
		return func() {}
	}
	self = func() int { return os.Geteuid() + 1 }
	back = func() { self = os.Geteuid }
	t.Cleanup(back)
	return back
}

// A crawler that may write above an allowed directory puts a link in its place.
// It is not parallel where it changes who we are.
func TestAnAllowedDirectoryThatBecameALink(t *testing.T) {
	for name, c := range map[string]struct {
		link, root string // below the test's directory
		foreign    bool
		followed   bool
	}{
		"the directory itself":                         {link: "root", root: "root"},
		"the directory itself, as the crawler":         {link: "root", root: "root", foreign: true},
		"one above it, as the crawler":                 {link: "way", root: "way/root", foreign: true},
		"one above it, as the manager or the operator": {link: "way", root: "way/root", followed: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := lend(t)
			base := t.TempDir()
			write(t, filepath.Join(base, "precious", "root", "x"))
			target := "precious/root"
			if c.link != c.root {
				target = "../" + filepath.Base(base) + "/precious"
			}
			must(t, os.Symlink(target, filepath.Join(base, c.link)))
			if c.foreign {
				giveAway(t, filepath.Join(base, c.link))
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
	root := filepath.Join(t.TempDir(), "manager")
	must(t, os.Mkdir(root, 0o755))
	back := giveAway(t, root)
	if err := (Place{root, "p1"}).MakeTemp(nil); err == nil || there(filepath.Join(root, "p1")) {
		t.Errorf("it is used: %v", err)
	}
	back()
	must(t, os.Remove(root))
	must(t, os.Symlink(t.TempDir(), root))
	if err := (Place{root, "p1"}).MakeTemp(nil); err == nil {
		t.Error("a link is used")
	}
	must(t, os.Remove(root))
	must(t, os.Mkdir(root, 0o755)) // of our own, for other things too
	owner := &Owner{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
	if os.Getuid() == 0 {
		owner = &Owner{Uid: 65534, Gid: 65534}
	}
	must(t, (Place{root, "p1"}).MakeTemp(owner))
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
