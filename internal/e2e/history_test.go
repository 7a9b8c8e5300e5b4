package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFeedHistoryIsWalkedToItsTarget(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"by schedule": time.Second, "by command": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			walkHistory(t, every, every == time.Hour)
		})
	}
}

func walkHistory(t *testing.T, every time.Duration, command bool) {
	w, site := newWorld(t), newSite(t)
	const code = "harbour-news"
	target := firstMoment.Add(-150 * time.Second) // two full pages and a half
	w.configure(feedAdapter(t))
	w.source(code, "feed", site.feed(code), every)
	w.pg.Exec(t, `update sources set history_target = $2, history_done = false, backfill_hours = 1 where code = $1`, code, target)
	spy := w.spy()
	m := w.run("test")

	const runs = 4 // three for the segment, and the one after it
	var positions []*time.Time
	for n := 1; n <= runs; n++ {
		if command && n > 1 {
			w.crawlkeeper("tick", code)
		}
		w.until("as many runs as ticks succeed", `select count(*) filter (where status = 'succeeded') >= $1 from crawl_runs`, n)
		positions = append(positions, value[*time.Time](w, `select min(i.published_at) from crawl_feed_items i
			where i.run_id in (select id::text from crawl_runs order by started_at limit $1 - 1)`, n))
	}
	m.stop()

	ticks := spy.ticks(code)
	if len(ticks) < runs {
		t.Fatalf("%d ticks for %d runs", len(ticks), runs)
	}
	for i, tick := range ticks {
		want := "schedule"
		switch {
		case i == 0:
			want = "startup"
		case command:
			want = "manual"
		}
		if tick.Trigger != want {
			t.Errorf("tick %d has the trigger %q, want %q", i+1, tick.Trigger, want)
		}
		if i >= runs-1 {
			if tick.History != nil {
				t.Errorf("tick %d still asks for history: %+v", i+1, *tick.History)
			}
			continue
		}
		if tick.History == nil || !tick.History.Target.Equal(target) {
			t.Errorf("tick %d asks for the history %+v", i+1, tick.History)
			continue
		}
		if diff := cmp.Diff(positions[i], tick.History.Position); diff != "" {
			t.Errorf("the position of tick %d (-oldest item before it +tick):\n%s", i+1, diff)
		}
	}
	if diff := cmp.Diff(site.since(code, target), w.guids(code)); diff != "" {
		t.Errorf("the segment (-site +stored):\n%s", diff)
	}
	if !w.holds(`select history_done and history_position = $2 from sources where code = $1`, code, target) {
		t.Error("the segment is not done, or its position not the target")
	}
	if !slices.IsSortedFunc(positions[1:runs-1], func(a, b *time.Time) int { return b.Compare(*a) }) {
		t.Errorf("the walk went forward: %v", positions)
	}
	t.Logf("figure: %d items of history in %d runs", len(w.guids(code)), runs-1)
}
