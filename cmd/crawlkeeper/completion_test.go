package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// completed is the candidates for a line, without their explanations.
func completed(t *testing.T, environ []string, words ...string) []string {
	t.Helper()
	r := call(t, environ, append([]string{"complete", "--"}, words...)...).want(t, exitDone, "", "")
	var found []string
	for line := range strings.Lines(r.stdout) {
		name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		found = append(found, name)
	}
	return found
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	writeStatus(t, server, map[string]status.Record{"bbc": {}, "bild": {}, "日経": {}, "a:b": {}, "bad\nname": {}, "b;reboot": {}, "b$(reboot)": {}, "b`reboot`": {}}, nil)
	environ := serversAt(server.URL(), "postgres://nobody@127.0.0.1:1/none")
	for _, test := range []struct {
		line string // words with a space between; a space at the end begins a new one
		want []string
	}{
		{"st", []string{"status", "stop", "start"}},
		{"--config x.yaml sta", []string{"status", "start"}},
		{"comple", []string{"completion"}},
		{"completion ", []string{"bash", "zsh", "fish"}},
		{"status --pha", []string{"--phase"}},
		{"status --phase st", []string{"starting", "stalled", "stopping", "stopped"}},
		{"status --phase=ba", []string{"--phase=backoff"}},
		{"--log-format ", []string{"auto", "text", "json"}},
		{"restart ", []string{"a:b", "bbc", "bild", "日経"}},
		{"restart b", []string{"bbc", "bild"}},
		{"restart bbc b", []string{"bild"}},
		{"restart --rolling --timeout 5s bi", []string{"bild"}},
		{"restart --adapter ", []string{"*", "rss"}},
		{"output -f bb", []string{"bbc"}},
		{"pause -- --r", nil},
		{"--config ", nil}, // files
		{"nonsense --config=", nil},
		{"-", []string{"--help", "--config", "--name", "--prefix", "--collector", "--http-listen", "--log-level", "--log-format"}},
		{"--prefix other: restart ", nil},
	} {
		if got := completed(t, environ, strings.Split(test.line, " ")...); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.line, got, test.want)
		}
	}
}

func TestCompletionWithoutServers(t *testing.T) {
	t.Parallel()
	began := time.Now()
	if r := call(t, nowhere(), "complete", "--", "restart", ""); r != (result{}) {
		t.Errorf("%+v", r)
	}
	if r := call(t, []string{"CRAWLKEEPER_REDIS_URL=nonsense"}, "complete", "--", "restart", ""); r != (result{}) {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}

func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		call(t, nil, "completion", shell).want(t, exitDone, "complete --", "")
	}
}

// The script is run by the shell that it is for.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	writeStatus(t, server, map[string]status.Record{"a:b": {}, "a:c": {}, "*": {}, "a;b": {}}, nil)
	bin := filepath.Dir(testenv.Binary(t, "./cmd/crawlkeeper"))
	script := `
source <(crawlkeeper completion bash)
try() { COMP_LINE=$1 COMP_POINT=${#1}; _crawlkeeper; echo "${COMPREPLY[*]}"; }
try 'crawlkeeper migr'
try 'crawlkeeper restart '
try 'crawlkeeper restart a:'
try 'crawlkeeper status --phase=cool'
try 'crawlkeeper --config '
complete -p crawlkeeper
`
	environ := append(serversAt(server.URL(), "postgres://nobody@127.0.0.1:1/none"), "PATH="+bin+":/usr/bin:/bin")
	stdout := runShell(t, environ, script)
	wantText(t, stdout, "migrate", "a:b a:c", "b c", "cooling", "",
		"complete -o bashdefault -o default -F _crawlkeeper crawlkeeper")
}

// runShell runs a script in bash.
func runShell(t *testing.T, environ []string, script string) string {
	t.Helper()
	spawner, err := process.New(process.Options{Name: "bash", Scope: t.TempDir(), Logger: testenv.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = spawner.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	stdout, stderr, exit, err := process.Output(ctx, spawner, process.Spec{
		ID: t.Name(), Argv: []string{"/bin/bash", "--norc", "-eu", "-o", "pipefail", "-c", script}, Env: environ,
	})
	if err != nil || exit.Code != 0 || len(stderr) > 0 {
		t.Fatalf("bash: %v, %v, %s%s", err, exit, stdout, stderr)
	}
	return string(stdout)
}
