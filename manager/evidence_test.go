package manager

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/output"
)

// A crawler that writes without measure, one line that never ends, bytes that are no text, and half a line when it dies:
// the manager takes all of it, and keeps the end as evidence.
func TestALoudCrawlerLeavesItsLastLines(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	loud := strings.Replace(standin(t, "*", "-write", fmt.Sprint(128<<20), "-long-line", fmt.Sprint(100<<20), "-garbage", "-half", "the last word", "-exit", "3", "-after", "0s"),
		"pass_urls: true", fmt.Sprintf("output: {to: [forward, file], dir: %q, max_size: 10MiB, keep: 2}, pass_urls: true", logs), 1)
	w := newWorld(t, strings.Replace(loud, "min: 200ms, max: 1s", "min: 1h, max: 1h", 1))
	w.source("a")
	r := w.start()
	w.phase("a", "cooling")
	eventually(t, "the evidence", func() bool {
		return testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where status='exited' and cause='crashed' and exit_code=3 and last_lines like '%the last word'`) == 1
	})
	var shown []string
	lines, found := r.outputOf(t.Context(), "a", false)
	if !found {
		t.Fatal("no output")
	}
	for line := range lines {
		shown = append(shown, string(line))
	}
	if len(shown) == 0 || shown[len(shown)-1] != "the last word" {
		t.Errorf("the last of %d lines: %.40q", len(shown), shown[max(0, len(shown)-1):])
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(logs, "a.log"))
	if err != nil || !strings.HasSuffix(string(data), "the last word\n") {
		t.Errorf("the log file ends with %.40q, %v", data[max(0, len(data)-40):], err)
	}
	files, err := os.ReadDir(logs)
	if err != nil || len(files) > 3 {
		t.Errorf("%d log files, %v", len(files), err)
	}
}

// Who reads what a crawler prints learns what is not there.
func TestShownLinesTellOfWhatIsMissing(t *testing.T) {
	t.Parallel()
	text := []byte("begin, and more")[:5]
	lines := []output.Line{{Text: text}, {Text: text, Lost: 7, Cut: true}, {Text: []byte("\xff\x1b[0m")}}
	var shown []string
	for line := range shownLines(slices.Values(lines)) {
		shown = append(shown, string(line))
	}
	want := []string{"begin", "… 7 lines lost: the reader was too slow", "begin [cut]", "\xff\x1b[0m"}
	if !slices.Equal(shown, want) || string(text[:15]) != "begin, and more" {
		t.Errorf("%q, and the text is %q", shown, text[:15])
	}
	for range shownLines(slices.Values(lines[1:])) {
		break // who goes is asked for nothing more
	}
}

// What an adapter asks for reaches its crawlers, through the real program.
func TestAnAdapterSaysAsWhomAndWithinWhichLimits(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "seen")
	if err := os.WriteFile(out, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	script, err := json.Marshal([]string{"sh", "-c", `trap 'echo int >>` + out + `; exit 0' INT; echo $(umask) $(nice) $(ulimit -n) $(id -u) $TMPDIR >>` + out + `; while :; do sleep 0.05; done`})
	if err != nil {
		t.Fatal(err)
	}
	nice, uid := testenv.Nice(3), 65534
	if !testenv.Root(t, "starts crawlers as another user") {
		uid = os.Getuid()
	}
	adapter := fmt.Sprintf("  \"*\": {command: %s, umask: \"027\", nice: %d, rlimits: {nofile: 333}, user: \"%d\", stop_signal: SIGINT, stop_timeout: 30s}\n", script, nice, uid)
	w := newWorld(t, adapter)
	if err := os.Chmod(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(out)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(out, 0o666); err != nil {
		t.Fatal(err)
	}
	w.source("a")
	d := w.daemon(w.spawner(), "first", ports(t, 1)[0])
	w.phase("a", "running")
	var seen []string
	eventually(t, "what it sees", func() bool {
		data, _ := os.ReadFile(out)
		seen = strings.Fields(string(data))
		return len(seen) == 5
	})
	if got := strings.Join(seen[:4], " "); got != fmt.Sprintf("0027 %d 333 %d", nice, uid) || !strings.Contains(seen[4], "crawlkeeper-") {
		t.Errorf("%v", seen)
	}
	if err := d.Terminate(); err != nil {
		t.Fatal(err)
	}
	if got := d.Exit(); got.Code != 0 {
		t.Errorf("the manager: %v", got)
	}
	if data, _ := os.ReadFile(out); !strings.HasSuffix(string(data), "int\n") {
		t.Errorf("it was not asked by its own signal: %s", data)
	}
	if _, err := os.Stat(seen[4]); !os.IsNotExist(err) {
		t.Errorf("its temporary directory is left: %v", err)
	}
	if n := testenv.Value[int](t, w.pg, `select count(*) from crawl_processes where cause='shutdown' and exit_code=0`); n != 1 {
		t.Errorf("%d rows", n)
	}
}
