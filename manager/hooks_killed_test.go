package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"crawlkeeper/internal/testenv"
)

// Managers are killed again and again while crawlers start and end. In the end the final hooks of every process have run: once,
// or more than once and marked.
func TestFinalSurvivesKilledManagers(t *testing.T) {
	t.Parallel()
	kills := 10
	if os.Getenv("CRAWLKEEPER_TEST_LONG") != "" {
		kills = 200
	}
	d := newDiary(t)
	missing := strings.Replace(hooked(t, "{final: ["+d.hook("")+"]}"), testenv.StandIn(t), "/no/such/crawler", 1)
	w := newWorld(t,
		hooked(t, "{acquire: [{command: [\"true\"]}], final: ["+d.hook("")+"]}", "-after", "50ms", "-exit", "1", "-setsid"),
		strings.Replace(missing, `"*"`, `"missing"`, 1))
	w.source("a", "b", "c", "d")
	w.pg.Exec(t, "update sources set adapter = 'missing' where code = 'd'")
	s := w.spawner()
	at := ports(t, 1)[0]
	const crawlers = "select count(*) from crawl_processes where kind = 'crawler'"
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range kills {
		rows, ran := w.number(crawlers), len(d.events())
		m := w.daemon(s, "test", at)
		w.ready(at)
		newRows, newRuns := random.IntN(4), random.IntN(4) // the moment is at random
		eventually(t, fmt.Sprintf("%d new processes, %d hooks", newRows, newRuns), func() bool {
			return w.number(crawlers) >= rows+newRows && len(d.events()) >= ran+newRuns
		})
		if err := m.Kill(); err != nil {
			t.Fatal(err)
		}
		<-m.Exited()
	}
	before := w.number(crawlers)
	last := w.daemon(s, "test", at)
	w.ready(at)
	eventually(t, "new processes", func() bool {
		return w.number(crawlers) > before+4
	})
	w.nothingOwed()
	if err := last.Terminate(); err != nil {
		t.Fatal(err)
	}
	if got := last.Exit(); got.Code != 0 {
		t.Errorf("the last manager: %v", got)
	}
	w.finals(d, before)
}

// ready waits until the manager at an address is active.
func (w *world) ready(addr string) {
	w.t.Helper()
	eventually(w.t, "a manager is ready", func() bool { code, _ := ready(addr); return code == 200 })
}

// finals checks how often the final hooks of each process ran. Those after the oldest so many were never in danger.
func (w *world) finals(d *diary, endangered int) {
	w.t.Helper()
	if n := w.number("select count(*) from crawl_processes where final_owed"); n != 0 {
		w.t.Errorf("final is owed to %d processes", n)
	}
	once, again := map[string]int{}, map[string]int{}
	for _, e := range d.events() {
		if e.Repeated {
			again[e.Process.ID]++
		} else {
			once[e.Process.ID]++
		}
	}
	rows, err := w.pg.Conn(w.t).Query(context.Background(), "select id::text from crawl_processes where kind = 'crawler' order by queued_at")
	if err != nil {
		w.t.Fatal(err)
	}
	n, repeated := 0, 0
	for ; rows.Next(); n++ {
		var id string
		if err := rows.Scan(&id); err != nil {
			w.t.Fatal(err)
		}
		switch {
		case once[id]+again[id] == 0:
			w.t.Errorf("process %s: final never ran", id)
		case once[id] > 1:
			w.t.Errorf("process %s: final ran %d times without a mark", id, once[id])
		case n >= endangered && again[id] > 0:
			w.t.Errorf("process %s: final ran again although no manager was killed", id)
		}
		repeated += min(1, again[id])
		delete(once, id)
		delete(again, id)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	if len(once)+len(again) > 0 {
		w.t.Errorf("final ran for processes that have no row: %v %v", once, again)
	}
	if starts := w.rdb.LLen(context.Background(), "starts").Val(); int(starts) > n {
		w.t.Errorf("%d crawlers were started, %d have a row", starts, n)
	}
	w.t.Logf("%d processes, final was repeated for %d", n, repeated)
}
