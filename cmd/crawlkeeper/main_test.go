package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&redisLog)
	testenv.Main(m)
}

// patience is how long a test waits for what should take a moment.
const patience = 60 * time.Second

// result is what a call of the program left.
type result struct {
	status         int
	stdout, stderr string
}

// call runs the program in this process.
func call(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	return callWith(t.Context(), environ, args...)
}

func callWith(ctx context.Context, environ []string, args ...string) result {
	var stdout, stderr bytes.Buffer
	status := run(ctx, world{Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Environ: environ})
	return result{status, stdout.String(), stderr.String()}
}

// want checks the exit status and what stands in the output.
func (r result) want(t *testing.T, status int, stdout, stderr string) result {
	t.Helper()
	if r.status != status || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) {
		t.Fatalf("exit status %d, stdout:\n%s\nstderr:\n%s\nwant exit status %d, %q on stdout and %q on stderr",
			r.status, r.stdout, r.stderr, status, stdout, stderr)
	}
	return r
}

// migratedDatabase is a database of this test with all tables.
func migratedDatabase(t *testing.T) *testenv.PG {
	t.Helper()
	return testenv.PostgresFrom(t, "cli", func(ctx context.Context, url string) error {
		_, err := sql.Migrate(ctx, url, slog.New(slog.DiscardHandler))
		return err
	})
}

// nowhere is an environment in which there are no servers.
func nowhere() []string {
	return serversAt("redis://127.0.0.1:1/0", "postgres://nobody@127.0.0.1:1/none")
}

// serversAt is the environment of a program that uses these servers.
func serversAt(redis, postgres string) []string {
	return []string{
		"CRAWLKEEPER_REDIS_URL=" + redis, "CRAWLKEEPER_POSTGRES_URL=" + postgres,
		"CRAWLKEEPER_MANAGER_NAME=test", "CRAWLKEEPER_HTTP_LISTEN=127.0.0.1:0",
	}
}

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

func wantText(t *testing.T, got string, want ...string) {
	t.Helper()
	if joined := strings.Join(want, "\n") + "\n"; got != joined {
		t.Errorf("got:\n%s\nwant:\n%s\n(%q)", got, joined, got)
	}
}
