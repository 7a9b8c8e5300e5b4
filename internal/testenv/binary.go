package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"crawlkeeper/internal/testenv/servers"
)

// buildTimeout bounds one build, also where nothing is in the cache.
const buildTimeout = 5 * time.Minute

// binary is a program of this module that was built for tests.
type binary struct {
	once sync.Once
	path string
	err  error
}

// StandIn builds the stand-in crawler; see package standin for what it can do.
func StandIn(t testing.TB) string {
	t.Helper()
	return Binary(t, "./internal/testenv/standin")
}

// Binary builds a program of this module, without the race detector, and returns its path. That happens once in a test process.
func Binary(t testing.TB, pkg string) string {
	t.Helper()
	return BinaryWith(t, pkg, "")
}

// BinaryWith is Binary with a build tag.
func BinaryWith(t testing.TB, pkg, tag string) string {
	t.Helper()
	env := environment(t)
	b := binaryOf(pkg + " " + tag)
	b.once.Do(func() { b.path, b.err = build(env, pkg, tag) })
	if b.err != nil {
		t.Fatalf("testenv: build %s: %v", pkg, b.err)
	}
	return b.path
}

func binaryOf(pkg string) *binary {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.binaries == nil {
		shared.binaries = make(map[string]*binary)
	}
	if shared.binaries[pkg] == nil {
		shared.binaries[pkg] = new(binary)
	}
	return shared.binaries[pkg]
}

func build(env *servers.Env, pkg, tag string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := readSources(root); err != nil {
		return "", fmt.Errorf("read sources: %w", err)
	}
	dir := filepath.Join(env.Dir(), "bin"+tag)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	target := filepath.Join(dir, path.Base(pkg))
	environ := append(os.Environ(), "CGO_ENABLED=0")
	return target, env.Run(ctx, root, environ, goTool(), "build", "-race=false", "-tags", tag, "-o", target, pkg)
}

// readSources lists every folder of sources. The go command knows nothing of a program that a test builds, and would take
// the test's last result for a run after a change; but it notes what a test has read, and asks whether that is the same.
func readSources(root string) error {
	return filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{".git", ".venv", "bin", "__pycache__"}, entry.Name()) {
			return fs.SkipDir
		}
		return err
	})
}

// goTool is the go command that built this test, or else the one in PATH.
func goTool() string {
	tool := filepath.Join(runtime.GOROOT(), "bin", "go") //nolint:staticcheck // tests run where they were built
	if _, err := os.Stat(tool); err == nil {
		return tool
	}
	return servers.LookPath("go")
}

// moduleRoot is the folder of go.mod, above the folder of the package that is tested.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find module: there is no go.mod above the working directory")
		}
		dir = parent
	}
}
