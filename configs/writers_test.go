package configs

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"crawlkeeper/internal/testenv"
)

// placeFile makes a directory with a file in it; both are ours and closed to others.
func placeFile(t *testing.T) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "etc")
	file = filepath.Join(dir, "ck.yaml")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("manager: {name: m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

func TestWhoMayWriteTheConfiguration(t *testing.T) {
	t.Parallel()
	chmod := func(mode os.FileMode) func(string) error {
		return func(path string) error { return os.Chmod(path, mode) }
	}
	for name, test := range map[string]struct {
		file, dir func(string) error
		want      string // of the error, with DIR and FILE; "": none
	}{
		"ours":                      {},
		"all may read":              {file: chmod(0o644)},
		"the group may write":       {file: chmod(0o660), want: "FILE may be written by others (mode 0660), who could change what root runs: chmod go-w FILE"},
		"all may write":             {file: chmod(0o646), want: "chmod go-w FILE"},
		"the group may replace it":  {dir: chmod(0o775), want: "DIR may be written by others (mode 0775), who could change what root runs: chmod go-w DIR"},
		"all may replace it":        {dir: chmod(0o757), want: "chmod go-w DIR"},
		"all may put others beside": {dir: chmod(0o777 | os.ModeSticky)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, file := placeFile(t)
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(file, link); err != nil {
				t.Fatal(err)
			}
			for path, change := range map[string]func(string) error{file: test.file, dir: test.dir} {
				if change != nil {
					if err := change(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := strings.NewReplacer("DIR", dir, "FILE", file).Replace(test.want)
			w := append(writers{0, uint32(os.Geteuid())}, unmapped()...)
			for _, path := range []string{file, link, filepath.Join(dir, "..", "etc", "ck.yaml")} {
				err := w.check(path)
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", path, err, want)
				}
			}
		})
	}
}

// Whom it does not trust may own neither file nor directory nor a link on the way.
func TestStrangersMayNotOwnTheConfiguration(t *testing.T) {
	t.Parallel()
	_, file := placeFile(t)
	root := writers{0, uint32(os.Geteuid()) + 1}
	if os.Geteuid() != 0 {
		if err := root.check(file); err == nil || !strings.Contains(err.Error(), "belongs to user") {
			t.Errorf("%v", err)
		}
	}
	if !testenv.Root(t, "gives files to another user") {
		return
	}
	const stranger = 65534
	w := writers{0}
	for name, what := range map[string]func(dir, file, link string) string{
		"file": func(_, file, _ string) string { return file },
		"dir":  func(dir, _, _ string) string { return dir },
		"link": func(_, _, link string) string { return link },
	} {
		dir, file := placeFile(t)
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		if err := w.check(link); err != nil {
			t.Fatal(err)
		}
		owned := what(dir, file, link)
		if err := os.Lchown(owned, stranger, stranger); err != nil {
			t.Fatal(err)
		}
		if err := w.check(link); err == nil || !strings.Contains(err.Error(), owned+" belongs to user 65534, who could change what root runs: chown root "+owned) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A ConfigMap is a file behind two links, in a directory with the mode 0777, which is mounted read-only.
func TestConfigMapsAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := filepath.Join(dir, "..2026_11_29")
	if err := os.Mkdir(version, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(version, "ck.yaml"), []byte("manager: {name: m}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"..data": "..2026_11_29", "ck.yaml": "..data/ck.yaml"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(filepath.Join(dir, "ck.yaml"), nil)
	if err != nil || c.Manager.Name != "m" {
		t.Errorf("%v", err)
	}
	if !testenv.Root(t, "mounts a directory") {
		return
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(dir, "ck.yaml"), nil); err == nil {
		t.Error("it is not read-only yet")
	}
	errs := make(chan error)
	go func() { // on a thread of its own, which ends with its mounts
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
		}
		if err == nil {
			err = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}
		if err == nil {
			_, err = Load(filepath.Join(dir, "ck.yaml"), nil)
		}
		errs <- err
	}()
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

func TestLinksInACircleEnd(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "circle")
	if err := os.Symlink(link, link); err != nil {
		t.Fatal(err)
	}
	if err := (append(writers{0, uint32(os.Geteuid())}, unmapped()...)).check(link); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("%v", err)
	}
}

func TestRootReadsNothingThatOthersMayWrite(t *testing.T) {
	t.Parallel()
	_, file := placeFile(t)
	secret := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(secret, []byte("redis://h/0"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("redis: {url_file: "+secret+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{secret, file} {
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file, nil)
		if root := os.Geteuid() == 0; root != (err != nil && strings.Contains(err.Error(), "chmod go-w "+path)) || !root && err != nil {
			t.Errorf("as root %v: %v", root, err)
		}
	}
}
