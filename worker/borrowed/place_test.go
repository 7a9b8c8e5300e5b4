package borrowed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestTheRootIsMadeApart(t *testing.T) {
	t.Parallel()
	file := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	dir := func(path string) error { return os.MkdirAll(path, 0o700) }
	for name, c := range map[string]struct {
		before func(root string) error
		left   int // beside the root
		want   error
	}{
		"nothing is there":           {nil, 0, nil},
		"one was killed before":      {func(root string) error { return dir(root + ".top") }, 0, nil},
		"one was killed in it":       {func(root string) error { return dir(root + ".top/new") }, 1, nil},
		"something is in the way":    {func(root string) error { return file(root + ".top") }, 1, nil},
		"it is there":                {dir, 0, fs.ErrExist},
		"something else of its name": {file, 0, fs.ErrExist},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := t.TempDir()
			root := filepath.Join(above, "root")
			if c.before != nil {
				_ = c.before(root)
			}
			if err := makeApart(root); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			info, err := os.Lstat(root)
			if err != nil || c.want == nil && info.Mode() != fs.ModeDir|rootMode {
				t.Errorf("the root: %v, %v", info, err)
			}
			if entries, _ := os.ReadDir(above); len(entries) != 1+c.left {
				t.Errorf("left: %v", entries)
			}
		})
	}
}

func TestManyWhoFindNoRoot(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	var all sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		all.Go(func() {
			if err := (Place{Root: filepath.Join(above, "x", "root"), ID: id}).MakeTemp(nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if entries, _ := os.ReadDir(filepath.Join(above, "x")); len(entries) != 1 {
		t.Errorf("there: %v", entries)
	}
}
