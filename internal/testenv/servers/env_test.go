package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCloseRemovesTheFolderAndEndsTheServers(t *testing.T) {
	t.Parallel()
	env, err := New()
	if err != nil {
		t.Fatal(err)
	}
	db, err := env.StartPostgres(t.Context(), PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := env.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(t.Context(), "postgres", "SELECT 1"); err != nil {
		t.Error(err)
	}
	if err := db.Pause(); err != nil { // also a frozen server ends
		t.Error(err)
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(env.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	for _, number := range []int{db.Port(), cache.Port()} {
		if !isFree(number) {
			t.Errorf("port %d is still taken", number)
		}
	}
	if _, err := env.StartRedis(t.Context()); err == nil {
		t.Error("a closed environment started a server")
	}
}

func TestOnlyStaleFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	held, lock, err := makeDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	stale, released, err := makeDir(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := released.Close(); err != nil {
		t.Fatal(err)
	}
	removeStale(root)
	for dir, want := range map[string]bool{held: true, stale: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", filepath.Base(dir), err == nil, want)
		}
	}
}

func TestPortsAreHeld(t *testing.T) {
	t.Parallel()
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer p.release()
	for range 100 {
		other, err := reservePort()
		if err != nil {
			t.Fatal(err)
		}
		if other.number == p.number {
			t.Fatal("one port was given twice")
		}
		defer other.release()
	}
}

func TestMissingBinaryNamesItsPackage(t *testing.T) {
	t.Parallel()
	err := &MissingError{Binary: "redis-server", Package: "redis-server"}
	if !strings.Contains(err.Error(), "apt-get install -y --no-install-recommends redis-server") {
		t.Errorf("it does not say what to do: %v", err)
	}
}

func TestMajorVersion(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]int{"/usr/lib/postgresql/15/bin": 15, "/usr/lib/postgresql/9/bin": 9, "/usr/bin": 0} {
		if got := majorVersion(dir); got != want {
			t.Errorf("%s: %d, want %d", dir, got, want)
		}
	}
}
