package servers

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MissingError says that a server's binary is not on this machine, and what to install.
type MissingError struct {
	Binary  string
	Package string // the Debian package that has it
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("find %s: it is not installed; install the package %s (apt-get install -y --no-install-recommends %s)",
		e.Binary, e.Package, e.Package)
}

// Missing names the binaries that private servers need and that this machine lacks.
func Missing() []*MissingError {
	var missing []*MissingError
	if _, err := findRedis(); err != nil {
		missing = append(missing, err)
	}
	if _, err := findPostgres(); err != nil {
		missing = append(missing, err)
	}
	return missing
}

func findRedis() (string, *MissingError) {
	if path := LookPath("redis-server"); path != "" {
		return path, nil
	}
	return "", &MissingError{Binary: "redis-server", Package: "redis-server"}
}

// findPostgres returns the folder with initdb and postgres: the newest of Debian's, else the one in PATH.
func findPostgres() (string, *MissingError) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(majorVersion(b), majorVersion(a)) })
	if path := LookPath("initdb"); path != "" {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range dirs {
		if isExecutable(filepath.Join(dir, "initdb")) && isExecutable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", &MissingError{Binary: "postgres", Package: "postgresql"}
}

// majorVersion reads 15 out of /usr/lib/postgresql/15/bin.
func majorVersion(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

// LookPath finds a program in PATH; empty when it is not there.
func LookPath(name string) string {
	for dir := range strings.SplitSeq(os.Getenv("PATH"), string(os.PathListSeparator)) {
		path := filepath.Join(dir, name)
		if filepath.IsAbs(dir) && isExecutable(path) {
			return path
		}
	}
	return ""
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
