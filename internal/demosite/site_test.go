package demosite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mmcdole/gofeed"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that a test moves.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

var start = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

func runSite(t *testing.T) (*Site, *clock) {
	t.Helper()
	c := new(clock)
	c.nanos.Store(start.UnixNano())
	s, err := New(Options{Seed: 1, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, c
}

type answer struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, url string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func feedOf(t *testing.T, manner Manner, format Format) Feed {
	t.Helper()
	for _, f := range Feeds() {
		if f.Manner == manner && f.Format == format {
			return f
		}
	}
	t.Fatalf("there is no %s feed in %s", manner, format)
	return Feed{}
}

func TestFeedsAreReadByALibrary(t *testing.T) {
	t.Parallel()
	s, _ := runSite(t)
	for _, format := range []Format{RSS, Atom} {
		f := feedOf(t, Steady, format)
		got := get(t, s.FeedURL(f))
		feed, err := gofeed.NewParser().Parse(strings.NewReader(got.body))
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if feed.FeedType != string(format) || feed.Title != f.Title || len(feed.Items) != PageSize {
			t.Errorf("%s: type %s, title %q, %d items", format, feed.FeedType, feed.Title, len(feed.Items))
		}
		for i, item := range feed.Items {
			want := f.newest(1, start, time.Time{})[i]
			if item.Title != want.Title || !item.PublishedParsed.Equal(want.Published) || item.GUID != f.id(want) {
				t.Errorf("%s: item %d is %q of %v, want %q of %v", format, i, item.Title, item.PublishedParsed, want.Title, want.Published)
			}
		}
		if page := get(t, feed.Items[0].Link); page.status != 200 || !strings.Contains(page.body, "<article>") {
			t.Errorf("%s: the page of the first item: %d", format, page.status)
		}
	}
}

func TestFeedsGainArticles(t *testing.T) {
	t.Parallel()
	s, c := runSite(t)
	f := feedOf(t, Steady, RSS)
	first := get(t, s.FeedURL(f))
	if again := get(t, s.FeedURL(f), "If-None-Match", first.header.Get("ETag")); again.status != http.StatusNotModified || again.body != "" {
		t.Errorf("unchanged by ETag: %d", again.status)
	}
	if again := get(t, s.FeedURL(f), "If-Modified-Since", first.header.Get("Last-Modified")); again.status != http.StatusNotModified {
		t.Errorf("unchanged by time: %d", again.status)
	}
	c.advance(2 * f.Every)
	later := get(t, s.FeedURL(f), "If-None-Match", first.header.Get("ETag"))
	if later.status != http.StatusOK || later.body == first.body || later.header.Get("ETag") == first.header.Get("ETag") {
		t.Errorf("changed: %d", later.status)
	}
}

// Pages by ?before= go through the past without a gap and without an article twice, and end.
func TestHistoryIsWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(Feeds()).Draw(t, "feed")
		f.Every = time.Duration(rapid.IntRange(1, 100_000).Draw(t, "every")) * time.Second
		now := start.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now")))
		seed := rapid.Uint64().Draw(t, "seed")
		var all []int64
		var before time.Time
		for range 5 {
			page := f.newest(seed, now, before)
			for _, a := range page {
				if a.Published.After(now) || (!before.IsZero() && !a.Published.Before(before)) {
					t.Fatalf("article %d of %v is on the page before %v", a.Number, a.Published, before)
				}
				all = append(all, a.Number)
				before = a.Published
			}
			if len(page) < PageSize {
				break
			}
		}
		for i := 1; i < len(all); i++ {
			if all[i] != all[i-1]-1 {
				t.Fatalf("article %d is followed by %d", all[i-1], all[i])
			}
		}
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	s, _ := runSite(t)
	f := feedOf(t, Steady, RSS)
	newest := f.newest(1, start, time.Time{})[0]
	for _, test := range []struct {
		path   string
		status int
		has    string
	}{
		{"/", 200, `href="/sections/harbour-news"`},
		{"/sections/" + f.Code, 200, fmt.Sprintf(`href="/articles/%s/%d"`, f.Code, newest.Number)},
		{"/sections/" + f.Code, 200, `rel="next" href="/sections/harbour-news?before=`},
		{"/sections/" + f.Code + "?before=1999-01-01T00:00:00Z", 200, "<ul>"},
		{"/sections/none", 404, ""},
		{"/sections/" + f.Code + "?before=yesterday", 400, "before is a time"},
		{f.Path() + "?before=yesterday", 400, "before is a time"},
		{"/feeds/none.xml", 404, ""},
		{"/feeds/" + f.Code, 404, ""},
		{fmt.Sprintf("/articles/%s/%d", f.Code, newest.Number+2), 404, ""}, // not published yet
		{"/articles/" + f.Code + "/-1", 404, ""},
		{"/articles/" + f.Code + "/x", 404, ""},
		{"/slow?seconds=0", 200, "It took 0 seconds"},
		{"/slow?seconds=9999", 400, "seconds is a number"},
		{"/nothing", 404, ""},
	} {
		got := get(t, s.URL()+test.path)
		if got.status != test.status || !strings.Contains(got.body, test.has) {
			t.Errorf("%s: %d %q", test.path, got.status, got.body)
		}
	}
}

func TestFlakyFeedFailsNowAndThen(t *testing.T) {
	t.Parallel()
	s, c := runSite(t)
	f := feedOf(t, Flaky, Atom)
	seen := map[string]int{}
	for range 100 {
		got := get(t, s.FeedURL(f))
		_, err := gofeed.NewParser().Parse(strings.NewReader(got.body))
		switch {
		case got.status == http.StatusServiceUnavailable:
			seen["outage"]++
		case err != nil:
			seen["torn"]++
		default:
			seen["well"]++
		}
		c.advance(mishapEvery)
	}
	if seen["outage"] < 15 || seen["torn"] < 3 || seen["well"] < 40 {
		t.Errorf("of 100 answers: %v", seen)
	}
}

func TestHangingFeedEndsWithItsClientOrSite(t *testing.T) {
	t.Parallel()
	s, _ := runSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	f := feedOf(t, Hanging, RSS)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.FeedURL(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, head); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended by itself: %v", err)
	}
}

func TestTwoSitesOfOneSeedAgree(t *testing.T) {
	t.Parallel()
	for _, f := range Feeds() {
		a, b := f.newest(7, start, time.Time{}), f.newest(7, start, time.Time{})
		if diff := cmp.Diff(a, b); diff != "" {
			t.Error(diff)
		}
		other := f.newest(8, start, time.Time{})
		if slices.EqualFunc(a, other, func(x, y Article) bool { return x.Title == y.Title }) {
			t.Errorf("%s: another seed changes nothing", f.Code)
		}
	}
}
