package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmcdole/gofeed"

	"crawlkeeper/internal/demosite"
	"crawlkeeper/internal/testenv"
)

// site is the demo site with a clock that stands still until the test sets it, so that a test knows what there is to find. It is
// reached through a proxy that counts what was asked for.
type site struct {
	t     *testing.T
	url   string
	clock atomic.Int64 // nanoseconds

	mu    sync.Mutex
	asked map[string]int // guarded by mu; by path
}

// firstMoment is when the clock stands at first.
var firstMoment = time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, asked: map[string]int{}}
	s.clock.Store(firstMoment.UnixNano())
	behind, err := demosite.New(demosite.Options{Seed: 1, Now: s.now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- behind.Run(ctx) }()
	address, err := url.Parse(behind.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(address) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) {}, // a crawler that was killed asked
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path]++
		s.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	s.url = front.URL
	t.Cleanup(func() {
		front.CloseClientConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		front.Close()
	})
	return s
}

func (s *site) now() time.Time { return time.Unix(0, s.clock.Load()) }

// pass lets time pass on the site.
func (s *site) pass(d time.Duration) { s.clock.Add(int64(d)) }

// times says how often a path was asked for.
func (s *site) times(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// wait waits until a path was asked for more often than before.
func (s *site) wait(path string, before int) {
	s.t.Helper()
	testenv.Eventually(s.t, patience, path+" is asked for", func() bool { return s.times(path) > before })
}

func (s *site) feed(code string) string    { return s.url + "/feeds/" + code + ".xml" }
func (s *site) section(code string) string { return s.url + "/sections/" + code }

// get asks for a feed as it is now; nil where the answer is an error or no feed.
func (s *site) get(code, query string) *gofeed.Feed {
	s.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	answer, err := client.Get(s.feed(code) + query)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil
	}
	feed, err := gofeed.NewParser().Parse(answer.Body)
	if err != nil {
		return nil
	}
	return feed
}

// items of a feed as it is now, by guid.
func (s *site) items(code string) []string {
	s.t.Helper()
	return s.collect(code, func(i *gofeed.Item) string { return i.GUID })
}

// pages of the articles of a feed as it is now.
func (s *site) pages(code string) []string {
	s.t.Helper()
	return s.collect(code, func(i *gofeed.Item) string { return s.url + i.Link[strings.Index(i.Link, "/articles/"):] })
}

func (s *site) collect(code string, name func(*gofeed.Item) string) []string {
	s.t.Helper()
	feed := s.get(code, "")
	if feed == nil {
		s.t.Fatalf("the feed %s is not well", code)
	}
	var names []string
	for _, item := range feed.Items {
		names = append(names, name(item))
	}
	slices.Sort(names)
	return names
}

// since walks back through a feed and returns all that was published at this time or later, by guid.
func (s *site) since(code string, when time.Time) []string {
	s.t.Helper()
	var guids []string
	for query := ""; ; {
		page := s.get(code, query).Items
		for _, item := range page {
			if item.PublishedParsed.Before(when) {
				slices.Sort(guids)
				return slices.Compact(guids)
			}
			guids = append(guids, item.GUID)
		}
		query = "?" + url.Values{"before": {page[len(page)-1].PublishedParsed.UTC().Format(time.RFC3339)}}.Encode()
	}
}

// together is the union of lists, sorted.
func together(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}
