package main

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

func TestJanitorAsksTheManager(t *testing.T) {
	t.Parallel()
	cleaning := &control.Cleaning{
		Kinds: map[string]control.Count{"temp": {Found: 2, Removed: 1}},
		Leaks: []control.Leak{{Kind: "temp", What: "/tmp/x", AgeSeconds: 7200, Removed: true}, {Kind: "temp", What: "/tmp/\x1by", Source: "a", Why: "busy"}},
	}
	f := startFake(t, func(c control.Command) *control.Reply {
		if c.By == "old" {
			return &control.Reply{OK: true}
		}
		return &control.Reply{OK: true, Janitor: cleaning}
	})
	r := call(t, f.environ, "janitor", "--remove").want(t, exitDone, "left behind: 2, removed: 1", "")
	r.want(t, exitDone, "2 h  -       yes      /tmp/x", "")
	r.want(t, exitDone, `/tmp/\x1by  busy`, "")
	if c := <-f.got; c.Action != control.ActionJanitor || !c.Remove || c.By == "" {
		t.Errorf("%+v", c)
	}
	call(t, f.environ, "janitor", "--json").want(t, exitDone, `{"kinds":{"temp":{"found":2,"removed":1}},"leaks":[{"kind":"temp","what":"/tmp/x"`, "")
	if c := <-f.got; c.Remove {
		t.Error("it removes without being told to")
	}
	call(t, f.environ, "janitor", "--by", "old").want(t, exitFailed, "", "older version")
	call(t, f.environ, "janitor", "--timeout", "-1s").want(t, exitUsage, "", "--timeout")
	cleaning.Problems = []string{"no right"}
	call(t, f.environ, "janitor").want(t, exitFailed, "left behind: 2", "no right")
}

func TestJanitorWithoutAManager(t *testing.T) {
	t.Parallel()
	pg, server := migratedDatabase(t), testenv.Redis(t)
	environ := append(serversAt(server.URL(), pg.URL()), "CRAWLKEEPER_MANAGER_NAME=lonely", "TMPDIR="+os.TempDir())
	client := server.Client(t)
	pg.Exec(t, "insert into crawl_deleted_sources(code, at) values ('gone', now() - interval '1 day')")
	pg.Exec(t, `insert into crawl_processes(id,source,kind,manager,host,boot_id,command,status,queued_at)
		values (gen_random_uuid(),'gone','crawler','lonely','','','[]','running',now()-interval '1 day')`)
	ctx := t.Context()
	client.RPush(ctx, "crawler:gone:start_urls", "{}")
	var c control.Cleaning
	r := call(t, environ, "janitor", "--json").want(t, exitDone, "", "")
	if err := json.Unmarshal([]byte(r.stdout), &c); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(c.Kinds) != "map[process_row:{1 0} tick:{1 0}]" {
		t.Errorf("%+v", c)
	}
	call(t, environ, "janitor", "--remove").want(t, exitDone, "left behind: 2, removed: 2", "")
	call(t, environ, "janitor", "--remove").want(t, exitDone, "left behind: 0, removed: 0", "")
	if client.Exists(ctx, "crawler:gone:start_urls", "crawler:manager").Val() != 0 {
		t.Error("the ticks are left, or the manager's key is")
	}
	if n := testenv.Value[int](t, pg, "select count(*) from crawl_processes where status = 'running'"); n != 0 {
		t.Error("the row is open")
	}
	writeStatus(t, server, nil, &status.Holder{Name: "other", Host: "elsewhere"})
	call(t, environ, "janitor").want(t, exitFailed, "", "other")
}

func TestTrackIsForCrawlers(t *testing.T) {
	t.Parallel()
	call(t, nil, "track", "file", "x").want(t, exitFailed, "", "is for crawlers")
	id := "CRAWLKEEPER_PROCESS_ID=1"
	call(t, []string{id}, "track", "file", "x").want(t, exitFailed, "", "track.enabled")
	call(t, []string{id, "CRAWLKEEPER_TRACK=/nowhere/1.borrowed"}, "track", "file", "a/../b").want(t, exitFailed, "", "..")
	call(t, []string{id, "CRAWLKEEPER_TRACK=/nowhere/1.borrowed"}, "track", "key", "x").want(t, exitFailed, "", "nothing was lent")
	call(t, []string{id}, "track", "socket", "x").want(t, exitUsage, "", "must be one of")
}
