package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A path to a socket has 107 bytes at most; folders for temporary files lie deeper than that.
func TestPostgresInADeepFolder(t *testing.T) {
	top, err := os.MkdirTemp("", "deep-") // not t.TempDir, which the user postgres cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	deep := filepath.Join(top, strings.Repeat("d", 120))
	for _, dir := range []string{top, deep} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", deep)
	env, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	server, err := env.StartPostgres(t.Context(), PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Exec(t.Context(), "postgres", "SELECT 1"); err != nil {
		t.Error(err)
	}
}

// A server on a disk of its own may be the first that makes the cluster which all others copy.
func TestTheFirstPostgresIsOnAnotherDisk(t *testing.T) {
	top, err := os.MkdirTemp("", "first-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", top) // where no cluster is kept yet
	env, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	const shared = "/dev/shm" // a file system of its own, where everybody may write
	server, err := env.StartPostgres(t.Context(), PostgresOptions{Cache: true, Dir: shared})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(server.dir) })
	if err := server.Exec(t.Context(), "postgres", "SELECT 1"); err != nil {
		t.Error(err)
	}
}
