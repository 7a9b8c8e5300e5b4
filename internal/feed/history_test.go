package feed

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const sourcesOf = `CREATE TABLE sources (code varchar PRIMARY KEY, collector varchar, adapter varchar, enabled boolean, interval_seconds integer,
  backfill_hours integer, history_target %[1]s, history_position %[1]s, history_done boolean, consecutive_failures integer, paused_until timestamptz)`

// historyTick is the tick that a manager would push for the row as it stands.
func (w *world) historyTick(s *site) string {
	w.t.Helper()
	return w.row(`SELECT json_build_object('trigger', 'schedule', 'backfill_hours', 1, 'url', $1::text,
		'history', json_build_object('target', history_target, 'position', history_position)) FROM sources`, s.url)
}

// Several articles a day, a day's border, and a target between two articles.
func articlesOfDays(t *testing.T) []time.Time {
	t.Helper()
	start := time.Date(2026, 3, 10, 23, 0, 0, 0, time.UTC)
	var all []time.Time
	for i := range 20 {
		all = append(all, start.Add(-time.Duration(i)*5*time.Hour))
	}
	return all
}

func TestHistoryIsWalkedPageByPage(t *testing.T) {
	t.Parallel()
	articles := articlesOfDays(t)
	target := articles[13].Add(-time.Minute).Truncate(24 * time.Hour) // a day's start, so that each type can hold it
	wanted := 0
	for _, at := range articles {
		if !at.Before(target) {
			wanted++
		}
	}
	for _, column := range []string{"timestamptz", "timestamp", "date"} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, fmt.Sprintf(sourcesOf, column))
			w.pg.Exec(t, "UPDATE sources SET history_target = $1::timestamptz", target)
			s := newSite(t, 3, articles...)
			w.start()
			last := "infinity"
			runs := 0
			for w.row("SELECT history_done FROM sources") == "false" {
				if runs++; runs > 10 {
					t.Fatal("the walk does not end")
				}
				w.push("%s", w.historyTick(s))
				w.closed(runs)
				w.want("succeeded", lastStatus)
				w.want("true", "SELECT history_position::timestamptz <= $1::timestamptz FROM sources", last)
				last = w.row("SELECT history_position::timestamptz FROM sources")
				// Each page of 3 overlaps the one before by the second of its oldest item.
				if stored := w.row(itemCount); stored != fmt.Sprint(min(1+2*runs, wanted)) {
					t.Errorf("after %d runs %s items", runs, stored)
				}
			}
			w.want(fmt.Sprint(wanted), itemCount)
			w.want("true", "SELECT history_position = history_target FROM sources")
			w.want("true", "SELECT min(published_at) >= $1 FROM crawl_feed_items", target)
			before := len(s.requests())
			w.push("%s", w.historyTick(s))
			w.closed(runs + 1)
			if got := s.requests()[before:]; !slices.Equal(got, []string{""}) {
				t.Errorf("after its end the history was asked for: %q", got)
			}
		})
	}
}

func TestHistoryEnds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 10, 23, 0, 0, 0, time.UTC)
	everything := []time.Time{at, at.Add(-time.Hour), at.Add(-2 * time.Hour)}
	for name, handler := range map[string]http.HandlerFunc{
		"no page": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("before") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			write(w, rssOf(everything))
		},
		"empty page": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("before") {
				write(w, rssOf(nil))
				return
			}
			write(w, rssOf(everything))
		},
		"before is not known": func(w http.ResponseWriter, _ *http.Request) { write(w, rssOf(everything)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			address := serve(t, handler)
			w.start()
			for i := range 2 {
				w.want("false", "SELECT history_done FROM sources")
				w.push(`{"trigger":"schedule","url":%q,"history":{"target":"2020-01-01T00:00:00+00:00","position":null}}`, address)
				w.closed(i + 1)
				w.want("succeeded", lastStatus)
			}
			w.want("true", "SELECT history_done AND history_position = $1 FROM sources", everything[2])
			w.want("3", itemCount)
		})
	}
}

// A page of the history that fails leaves the feed's own page stored and the position where it is.
func TestHistoryPageFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	position := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.pg.Exec(t, "UPDATE sources SET history_position = $1", position)
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("before") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		write(w, rssOf([]time.Time{position.Add(time.Hour)}))
	})
	w.start()
	w.push(`{"trigger":"schedule","url":%q,"history":{"target":"2020-01-01T00:00:00+00:00","position":"2026-01-01T00:00:00+00:00"}}`, address)
	w.closed(1)
	w.want("failed", lastStatus)
	w.want("1", itemCount)
	w.want("true", "SELECT history_position = $1 AND NOT history_done FROM sources", position)
}

// A tick that waited carries an old position: the row is newer.
func TestHistoryGoesOnFromTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	articles := articlesOfDays(t)
	w.pg.Exec(t, "UPDATE sources SET history_position = $1", articles[8])
	s := newSite(t, 3, articles...)
	w.start()
	w.push(`{"url":%q,"history":{"target":"2020-01-01T00:00:00+00:00","position":%q}}`, s.url, articles[4].Format(time.RFC3339))
	w.closed(1)
	w.want("true", "SELECT history_position = $1 FROM sources", articles[10])
	if got := s.requests(); len(got) != 2 || got[1] != articles[8].Add(time.Second).Format(time.RFC3339) {
		t.Errorf("asked %q", got)
	}
}

// Without history only fresh items are stored; a history that is wanted later brings the rest.
func TestHistoryAfterBackfill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSite(t, 10, hoursAgo(1), hoursAgo(30))
	s.etag = "v"
	w.start()
	w.push(`{"backfill_hours":24,"url":%q}`, s.url)
	w.closed(1)
	w.want("1", itemCount)
	w.push(`{"backfill_hours":24,"url":%q,"history":{"target":%q,"position":null}}`, s.url, hoursAgo(100).Format(time.RFC3339))
	w.closed(2)
	w.want("2", itemCount)
}

// Whatever the times of the articles, many in one second too, a walk ends and has all
// that a page's size allows: no second holds more articles than a page.
func TestWalkFindsEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
		pageSize := rapid.IntRange(4, 6).Draw(t, "page")
		perSecond := map[int]int{}
		var articles []time.Time
		for i, second := range rapid.SliceOfN(rapid.IntRange(0, 40), 1, 40).Draw(t, "seconds") {
			if perSecond[second]++; perSecond[second] < pageSize {
				articles = append(articles, base.Add(time.Duration(second)*time.Second+time.Duration(i)*time.Millisecond))
			}
		}
		s := &site{articles: articles, pageSize: pageSize}
		found := map[time.Time]bool{}
		walk := history{Target: base.Add(-time.Hour)}
		for step := 0; ; step++ {
			if step > 100 {
				t.Fatal("the walk does not end")
			}
			items, move := walkStep(s, walk)
			for _, it := range items {
				found[it.Published] = true
			}
			if move.Done {
				break
			}
			if !walk.Position.IsZero() && !move.Position.Before(walk.Position) {
				t.Fatalf("position went from %v to %v", walk.Position, move.Position)
			}
			walk.Position = move.Position
		}
		if len(found) != len(articles) {
			t.Errorf("found %d of %d articles", len(found), len(articles))
		}
	})
}

// walkStep is one step of a walk without network and database.
func walkStep(s *site, walk history) ([]item, *progress) {
	page := func(before string) []item {
		var items []item
		for _, at := range s.page(before) {
			items = append(items, item{Published: at})
		}
		return items
	}
	if walk.Position.IsZero() {
		items := page("")
		return items, walk.after(oldest(items))
	}
	items, move, _ := walk.step(func(before time.Time) ([]item, error) { return page(before.Format(time.RFC3339)), nil })
	return items, move
}

func TestHistoryNeedsAFeedWithTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		write(w, strings.Replace(rssOf(nil), "</channel>", "<item><guid>a</guid></item></channel>", 1))
	})
	w.start()
	w.push(`{"url":%q,"history":{"target":"2020-01-01T00:00:00+00:00","position":null}}`, address)
	w.closed(1)
	w.want("true", "SELECT history_done AND history_position IS NULL FROM sources")
	w.want("1", itemCount)
}
