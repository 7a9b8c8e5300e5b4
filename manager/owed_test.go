package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"crawlkeeper/worker/borrowed"
)

// The machine's clock was set back after the manager had become active: what it starts now is older than that by its time.
func TestOwnProcessesAreNotLostWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	w := newWorld(t, hooked(t, "{final: ["+d.hook("")+"]}"))
	w.source("a")
	w.pg.Exec(t, `insert into crawl_processes (id, source, kind, manager, host, boot_id, command, status, queued_at, final_owed)
		values (gen_random_uuid(), 'a', 'crawler', 'test', 'h', 'b', '["x"]', 'running', now() + interval '1 minute', true)`) // of a host whose clock is ahead
	r := w.start()
	w.phase("a", "running")
	d.wait("final", 1)
	r.activeSince.Store(time.Now().Add(time.Hour).UnixNano())
	w.pg.Exec(t, `insert into crawl_processes (id, source, kind, manager, host, boot_id, command, status, queued_at, final_owed)
		values (gen_random_uuid(), 'a', 'crawler', 'test', 'h2', 'b', '["x"]', 'running', now(), true)`)
	eventually(t, "the row of its crawler", func() bool {
		return w.number("select count(*) from crawl_processes where kind = 'crawler' and status = 'running' and host not in ('h', 'h2')") == 1
	})
	r.hooks.wake <- struct{}{}
	d.wait("final", 2)
	eventually(t, "the rows of the lost are closed", func() bool { // a little after their hooks ran
		return w.number("select count(*) from crawl_processes where status = 'running' and host in ('h', 'h2')") == 0
	})
	own := w.number("select count(*) from crawl_processes where kind = 'crawler' and status = 'running'")
	if n := len(d.events()); n != 2 || own != 1 {
		t.Errorf("%d final hooks ran, %d rows: the crawler that runs is taken for lost", n, own)
	}
}

// What could not be given back of a process whose manager was killed is told to its final hooks too, and stays in its row.
func TestFinalKnowsWhatAKilledManagerCouldNotGiveBack(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	w := newWorld(t, hooked(t, "{final: ["+d.hook("")+"]}"))
	w.source("a")
	first := w.start()
	w.phase("a", "running")
	root := first.spawner.TempRoot()
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	d.wait("final", 1)
	place := borrowed.Place{Root: root, ID: uuid.NewString()}
	must(t, place.MakeTemp(nil))
	t.Cleanup(func() { os.RemoveAll(root) })
	must(t, place.Lend(&borrowed.Terms{Process: place.ID, Source: "a", Roots: []string{t.TempDir()}}, nil))
	must(t, os.WriteFile(place.List(), []byte(`{"kind":"file","name":"/etc/passwd"}`+"\n"), 0o600))
	w.pg.Exec(t, `insert into crawl_processes (id, source, kind, manager, host, boot_id, command, status, queued_at, final_owed)
		values ($1, 'a', 'crawler', 'test', 'h', 'b', '["x"]', 'running', now(), true)`, place.ID)
	w.start()
	const want = "not given back: file /etc/passwd"
	e := d.wait("final", 2)[1]
	if e.Process.ID != place.ID || !strings.Contains(strings.Join(e.LastLines, "\n"), want) {
		t.Errorf("%+v", e)
	}
	w.nothingOwed()
	eventually(t, "its row says so: "+filepath.Base(root), func() bool {
		return w.number("select count(*) from crawl_processes where host = 'h' and last_lines like '%"+want+"%'") == 1
	})
}
