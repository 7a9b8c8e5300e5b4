package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{toldError(1), 1},
		{usagef("no"), 2},
		{&configs.Error{}, 2},
		{&control.ParseError{}, 2},
		{fmt.Errorf("run: %w", sql.ErrNotMigrated), 2},
		{fmt.Errorf("ask: %w", control.ErrNoManager), 3},
		{toldError(3), 3},
	} {
		if got := exitStatus(test.err); got != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		want string
	}{
		{"", "expected one of"},
		{"nonsense", "unexpected argument nonsense"},
		{"status --nonsense", "unknown flag --nonsense"},
		{"status --phase busy", "must be one of"},
		{"run --json", "goes with --dry-run"},
		{"restart", "name either sources"},
		{"restart a --all", "name either sources"},
		{"restart a --max-down 2", "goes with --rolling"},
		{"pause a --until yesterday", "neither a duration"},
		{"tick a --timeout 0s", "--timeout must be longer"},
		{"completion tcsh", "must be one of"},
		{"--log-level loud version", "must be one of"},
		{"status --http-listen nowhere", "http.listen"},
		{"crawl-feed", "is not set up"},
	} {
		r := call(t, nowhere(), strings.Fields(test.args)...).want(t, exitUsage, "", "crawlkeeper: ")
		if r.stdout != "" || !strings.Contains(r.stderr, test.want) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q says %q and %q, want one line with %q", test.args, r.stdout, r.stderr, test.want)
		}
	}
}

func TestHelpIsNoError(t *testing.T) {
	t.Parallel()
	call(t, nil, "--help").want(t, exitDone, "Keeps crawlers alive", "")
	call(t, nil, "pause", "--help").want(t, exitDone, "--until", "")
	if r := call(t, nil, "--help"); strings.Contains(r.stdout, "What can follow") || strings.Contains(r.stdout, "complete ") {
		t.Errorf("the hidden command is shown:\n%s", r.stdout)
	}
}

func TestConfigurationIsReadInOrder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crawlkeeper.yaml")
	if err := os.WriteFile(file, []byte("manager: {name: file, collector: file}\nredis: {prefix: \"file:\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newApp(world{Environ: []string{"CRAWLKEEPER_CONFIG=" + file, "CRAWLKEEPER_MANAGER_COLLECTOR=variable", "CRAWLKEEPER_REDIS_PREFIX=variable:"}})
	a.flags = configFlags{Prefix: "flag:"}
	c, err := a.Config()
	if err != nil {
		t.Fatal(err)
	}
	if c.Manager.Name != "file" || c.Manager.Collector != "variable" || c.Redis.Prefix != "flag:" {
		t.Errorf("%q, %q, %q", c.Manager.Name, c.Manager.Collector, c.Redis.Prefix)
	}
}

func TestWrongConfigurationSaysWhere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crawlkeeper.yaml")
	if err := os.WriteFile(file, []byte("manager:\n  names: x\nredis: {url: \"ftp://user:secret@host\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := call(t, nil, "--config", file, "status").want(t, exitUsage, "", file+":2:3: ")
	for _, line := range lines(r.stderr) {
		if !strings.HasPrefix(line, "crawlkeeper: ") || strings.Contains(line, "secret") {
			t.Errorf("line %q", line)
		}
	}
}

func TestServersAway(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"status", "restart --all", "output a", "migrate", "run --dry-run"} {
		r := call(t, nowhere(), strings.Fields(args)...).want(t, exitFailed, "", "is it running")
		if !strings.Contains(r.stderr, "CRAWLKEEPER_") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s says %q", args, r.stderr)
		}
	}
}

func TestDatabaseThatIsNotMigrated(t *testing.T) {
	t.Parallel()
	environ := serversAt(testenv.Redis(t).URL(), testenv.Postgres(t).URL())
	call(t, environ, "run", "--dry-run").want(t, exitUsage, "", "crawlkeeper migrate")
	call(t, environ, "run").want(t, exitUsage, "", "crawlkeeper migrate")
	call(t, environ, "migrate").want(t, exitDone, "applied ", "")
	call(t, environ, "migrate").want(t, exitDone, "the database is up to date\n", "")
	call(t, environ, "migrate", "--json").want(t, exitDone, `{"applied":[]}`, "")
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := callWith(ctx, nowhere(), "status")
	if r.status != exitFailed || r.stderr != "crawlkeeper: interrupted\n" {
		t.Errorf("%+v", r)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	call(t, nil, "version").want(t, exitDone, "crawlkeeper ", "")
	call(t, nil, "version", "--json").want(t, exitDone, `"go":"go`, "")
}
