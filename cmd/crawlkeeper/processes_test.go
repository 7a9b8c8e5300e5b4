package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"crawlkeeper/worker/process"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	pg.Exec(t, `INSERT INTO crawl_processes (id, source, kind, manager, host, boot_id, pid, command, binary_path, dir, status, queued_at, started_at, ended_at,
			exit_code, signal, cause, asked_by, last_lines, peak_memory, cpu_seconds, swept, parent) VALUES
		('0196f0a0-0000-7000-8000-000000000001', 'a', 'crawler', 'm', 'box', 'boot', 41, '["scrapy", "crawl", "a"]', '/usr/bin/scrapy', '.', 'exited',
			now() - interval '2 h', now() - interval '2 h', now() - interval '1 h', 1, null, 'crashed', 'manager', E'one\n\x1b[31mtwo', 70000000, 1.5, 2, null),
		('0196f0a0-0000-7000-8000-000000000002', 'a', 'hook', 'm', 'box', 'boot', 43, '["sh"]', null, null, 'exited',
			now() - interval '90 min', now() - interval '90 min', now() - interval '90 min' + interval '5 s', null, 'SIGKILL', 'stop_timeout', null, null, null, null, null,
			'0196f0a0-0000-7000-8000-000000000001'),
		('0196f0a0-0000-7000-8000-000000000003', 'a', 'crawler', 'm', 'box', 'boot', 42, '["scrapy"]', null, null, 'running',
			now() - interval '59 min', now() - interval '59 min', null, null, null, null, 'manager', null, null, null, null, null),
		('0196f0a0-0000-7000-8000-000000000004', 'b', 'crawler', 'm', 'box', 'boot', null, '["x"]', null, null, 'exited',
			now() - interval '3 min', null, now() - interval '3 min', null, null, 'start_failed', 'manager', 'start x: no such program', null, null, null, null)`)
	wantText(t, call(t, environ, "processes").want(t, exitDone, "", "").stdout,
		"STARTED     SOURCE  PID  STATUS   CAUSE               EXIT         RAN  MEMORY    CPU  SWEPT  BY       LAST LINE",
		"3 min ago   b         -  exited   start failed        -              -       -      -      0  manager  start x: no such program",
		"59 min ago  a        42  running  -                   -        59 min…       -      -      0  manager",
		"1 h ago     a        43  exited   hook: stop timeout  SIGKILL    5.0 s       -      -      0  -",
		`2 h ago     a        41  exited   crashed             1            1 h  66 MiB  1.5 s      2  manager  \x1b[31mtwo`)
	call(t, environ, "processes", "a", "-v").want(t, exitDone, "  end      crashed, exit 1, ran 1 h, started by manager\n  used     memory 66 MiB, CPU 1.5 s, swept 2\n  command  scrapy crawl a\n  binary   /usr/bin/scrapy in .\n  | one\n  | \\x1b[31mtwo\n", "")

	pg.Exec(t, `UPDATE crawl_processes SET evidence = E'pid 41 scrapy: state D\n  tcp a -> b' WHERE pid = 41`)
	call(t, environ, "processes", "0196f0a0-0000-7000-8000-000000000001").want(t, exitDone, "  | one\n  | \\x1b[31mtwo\n  found not to be well; until then it had printed and did:\n  : pid 41 scrapy: state D\n  :   tcp a -> b\n", "")
	if out := call(t, environ, "processes", "0196f0a0-0000-7000-8000-000000000001", "--json").stdout; !strings.Contains(out, `"evidence":["pid 41 scrapy: state D","  tcp a -> b"]`) || strings.Count(out, `"id"`) != 2 {
		t.Errorf("the process and its hook are %s", out)
	}

	var object struct{ Processes []map[string]any }
	if err := json.Unmarshal([]byte(call(t, environ, "processes", "a", "--open", "--json").stdout), &object); err != nil {
		t.Fatal(err)
	}
	if len(object.Processes) != 1 || object.Processes[0]["pid"] != 42.0 || object.Processes[0]["exit_code"] != nil || object.Processes[0]["ended_at"] != nil {
		t.Errorf("it says %v", object.Processes)
	}
}

func TestProcessTrees(t *testing.T) {
	t.Parallel()
	pg, environ := storeOnly(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	start, _ := process.StartTime(os.Getpid())
	for i, p := range []struct {
		source, host string
		start        uint64
	}{{"here", host, start}, {"gone", host, start - 1}, {"there", "elsewhere", start}} {
		pg.Exec(t, `INSERT INTO crawl_processes (id, source, kind, manager, host, boot_id, pid, start_time, command, status, queued_at) VALUES
			($1, $2, 'crawler', 'm', $3, $4, $5, $6, '[]', 'running', now() - make_interval(secs => $7))`,
			fmt.Sprintf("0196f0a0-0000-7000-8000-00000000000%d", i), p.source, p.host, process.BootID(), os.Getpid(), int64(p.start), i)
	}
	out := call(t, environ, "processes", "--tree").stdout
	for _, want := range []string{"here (crawlkeeper.tes", "it is gone, or in another container", "it runs on elsewhere"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var object struct {
		Processes []struct {
			Source, Unseen string
			Tree           []struct{ Pid int }
		}
	}
	if err := json.Unmarshal([]byte(call(t, environ, "processes", "here", "--tree", "--json").stdout), &object); err != nil {
		t.Fatal(err)
	}
	if len(object.Processes) != 1 || len(object.Processes[0].Tree) == 0 || object.Processes[0].Tree[0].Pid != os.Getpid() {
		t.Errorf("%+v", object)
	}
}
