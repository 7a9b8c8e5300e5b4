package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
)

// A janitor removes thousands of leftovers while crawlers are restarted, stopped and started: nothing that lives is touched, and
// in the end nothing is left.
func TestJanitorsNight(t *testing.T) {
	t.Parallel()
	l := leftWorld(t, "1h")
	var codes []string
	for i := range 12 {
		codes = append(codes, fmt.Sprint("s", i))
	}
	l.source(codes...)
	r := l.start()
	for _, code := range codes {
		l.phase(code, "running")
	}
	l.root = r.spawner.TempRoot()
	places, sources, rows := 600, 300, 200
	if os.Getenv("CRAWLKEEPER_TEST_LONG") != "" {
		places, sources, rows = 3000, 1500, 1000 // 10,000 things in all
	}
	total := places + 4*sources + rows // of a source: ticks, a key, a due time, a log file
	for i := range places {
		l.temp([]string{"", "", "gone", codes[i%len(codes)]}[i%4])
	}
	var gone []string
	for i := range sources {
		gone = append(gone, fmt.Sprint("gone", i))
	}
	l.deleted(gone...)
	l.rows(rows)

	churn, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for i := range 3 {
		busy.Go(func() {
			for n := i; churn.Err() == nil; n++ {
				source := []string{codes[n%len(codes)]}
				for _, action := range [][]string{{control.ActionRestart}, {control.ActionStop, control.ActionStart}}[n%2] {
					if reply := l.command(control.Command{Action: action, Sources: source}); !reply.OK && reply.Results[source[0]].Error != control.Superseded {
						t.Errorf("%s %s: %+v", action, source, reply)
					}
				}
			}
		})
	}
	first := l.janitor(true)
	seen := 0
	for _, c := range first.Kinds {
		seen += c.Found
	}
	if seen != total {
		t.Errorf("%d of %d were found: %v", seen, total, found(first))
	}
	l.janitor(true)
	stop()
	busy.Wait()
	for _, code := range codes {
		eventually(t, "the crawler of "+code+" runs", func() bool { // the status may be that of a moment ago
			r := l.records()[code]
			return r.Phase == "running" && alive(r.Pid)
		})
	}
	// Each living crawler has its directory, its list and its log file.
	var ids []string
	eventually(t, "a row for each crawler", func() bool {
		ids = testenv.Value[[]string](t, l.pg, "select coalesce(array_agg(id::text), '{}') from crawl_processes where status='running' and host <> 'elsewhere'")
		return len(ids) == len(codes)
	})
	for _, id := range ids {
		for _, path := range []string{id, id + ".terms", id + ".borrowed"} {
			if !there(l.root, path) {
				t.Errorf("%s is gone", path)
			}
		}
	}
	if n := testenv.Value[int](t, l.pg, "select count(*) from crawl_processes where cause not in ('restarted', 'stopped', 'manager_lost') or cause = 'manager_lost' and host <> 'elsewhere'"); n != 0 {
		t.Errorf("%d crawlers ended otherwise than asked for", n)
	}
	// What crawlers that ran kept from being given back goes when they rest.
	l.must(control.Command{Action: control.ActionStop, All: true})
	l.janitor(true)
	if left := found(l.janitor(false)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, dir := range []string{l.root, l.shared} {
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("%d things are left in %s", len(entries), dir)
		}
	}
	if logs, _ := filepath.Glob(l.logs + "/gone*"); len(logs) > 0 {
		t.Errorf("%d log files are left", len(logs))
	}
	keys, err := l.rdb.Keys(t.Context(), "crawler:gone*").Result()
	if len(keys) > 0 || err != nil {
		t.Errorf("%d keys are left, %v", len(keys), err)
	}
	if n := testenv.Value[int](t, l.pg, "select count(*) from crawl_deleted_sources where at < $1", time.Now().Add(-time.Hour)); n != 0 {
		t.Errorf("%d deleted sources are kept", n)
	}
}
