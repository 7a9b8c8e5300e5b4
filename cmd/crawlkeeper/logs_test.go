package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"crawlkeeper/internal/testenv"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO crawl_logs (source_code, run_id, level, message, created_at) VALUES
		('a', 7, 'DEBUG', 'first', '2026-01-01 10:00:00'), ('a', null, 'INFO', E'second\nline', '2026-01-01 10:00:01'),
		('b', null, 'WARNING', 'third', '2026-01-01 10:00:02'), (null, null, 'CRITICAL', 'fourth', null)`)
	messages := func(args string) string {
		t.Helper()
		var found []string
		got := call(t, environ, append([]string{"logs", "--json"}, strings.Fields(args)...)...).want(t, exitDone, "", "")
		for line := range strings.Lines(got.stdout) {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			found = append(found, row["message"].(string))
		}
		return strings.Join(found, ",")
	}
	for args, want := range map[string]string{
		"": "fourth,first,second\nline,third", "a": "first,second\nline", "--level warning": "fourth,third", "--level INFO a": "second\nline",
		"--limit 1": "third", "--since 2026-01-01T10:00:02Z": "third", "none": "",
	} {
		if got := messages(args); got != want {
			t.Errorf("logs %s: %q, want %q", args, got, want)
		}
	}
	call(t, environ, "logs", "a").want(t, exitDone, `  INFO     a  second\nline`+"\n", "")
	call(t, environ, "logs", "--level", "loud").want(t, exitUsage, "", `--level "loud" is none of debug`)
}

// safeBuffer is written by a command that still runs.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestLogsFollow(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO crawl_logs (source_code, level, message) VALUES ('a', 'INFO', 'first')`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr safeBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, world{Args: []string{"logs", "-f", "a"}, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Environ: environ})
	}()
	testenv.Eventually(t, patience, "the first row is there", func() bool { return strings.Contains(stdout.String(), "first") })
	pg.Exec(t, `INSERT INTO crawl_logs (source_code, level, message) VALUES ('b', 'INFO', 'other'), ('a', 'ERROR', 'second')`)
	testenv.Eventually(t, patience, "the new row is there", func() bool { return strings.Contains(stdout.String(), "second") })
	cancel()
	if status := <-ended; status != exitDone || strings.Contains(stdout.String(), "other") || strings.Count(stdout.String(), "first") != 1 {
		t.Errorf("exit status %d\n%s%s", status, stdout.String(), stderr.String())
	}
}
