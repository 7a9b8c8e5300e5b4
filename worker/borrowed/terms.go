package borrowed

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is what an entry is.
type Kind string

// The kinds. The last two are the manager's own and never on a list.
const (
	File   Kind = "file"
	Dir    Kind = "dir"
	Key    Kind = "key" // of Redis
	Temp   Kind = "temp"
	Cgroup Kind = "cgroup"
)

// Entry is one thing that is to be given back.
type Entry struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"` // an absolute path, or the name of a key
}

func (e Entry) String() string { return string(e.Kind) + " " + e.Name }

// Kept is what could not be given back, and why.
type Kept struct {
	Entry
	Why string
}

func (k Kept) String() string { return k.Entry.String() + ": " + k.Why }

// Terms say what may be on the list of one process. The manager writes them, beside the list.
type Terms struct {
	Process string   `json:"process"`
	Source  string   `json:"source"`
	Roots   []string `json:"roots"`  // files and directories below these, absolute
	Prefix  string   `json:"prefix"` // keys that begin with this
	Never   []string `json:"never"`  // but for these

	// By these a caller is known as one of the tree: the number that it bears, else that it descends from the manager.
	Number      uint64 `json:"number,string"`
	Parent      int    `json:"parent"`
	ParentStart uint64 `json:"parent_start"`
}

// longest is the length of a name on a list.
const longest = 4096

// Check tells, without a look at the disk, why an entry may not be on the list.
func (t *Terms) Check(e Entry) error {
	if e.Name == "" || len(e.Name) > longest || strings.ContainsRune(e.Name, 0) {
		return fmt.Errorf("a name has 1 to %d bytes, none of them 0", longest)
	}
	switch e.Kind {
	case Key:
		return t.checkKey(e.Name)
	case File, Dir:
		_, _, err := t.below(e.Name)
		return err
	}
	return fmt.Errorf("%q can be neither registered nor given back: there are file, dir and key", e.Kind)
}

func (t *Terms) checkKey(name string) error {
	switch {
	case t.Prefix == "" || !strings.HasPrefix(name, t.Prefix) || name == t.Prefix:
		return fmt.Errorf("only keys that begin with %q belong to this source", t.Prefix)
	case slices.Contains(t.Never, name):
		return errors.New("that key is the manager's")
	}
	return nil
}

// below splits a path into the innermost allowed directory and what is below that.
func (t *Terms) below(path string) (root, rel string, err error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return "", "", errors.New("a path must be absolute and plain, without .. in it")
	}
	for _, r := range t.Roots {
		rest, ok := strings.CutPrefix(path, r+"/")
		if ok && filepath.IsLocal(rest) && rest != "." && len(r) > len(root) {
			root, rel = r, rest
		}
	}
	if root == "" {
		return "", "", fmt.Errorf("it does not lie below a directory that is allowed here: %s", strings.Join(t.Roots, ", "))
	}
	return root, rel, nil
}
