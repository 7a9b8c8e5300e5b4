package feed

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// site is a feed with articles, newest first, in pages by ?before=.
type site struct {
	mu       sync.Mutex
	articles []time.Time // guarded by mu
	pageSize int
	asked    []string // guarded by mu: the queries, with 304 where that was the answer
	etag     string   // guarded by mu: empty: none is sent
	url      *url.URL
}

func newSite(t *testing.T, pageSize int, articles ...time.Time) *site {
	s := &site{articles: articles, pageSize: pageSize}
	s.url = serve(t, s.serve)
	s.url.User, s.url.RawQuery = nil, ""
	return s
}

func (s *site) add(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.articles = append(s.articles, at)
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := r.URL.Query().Get("before")
	etag := fmt.Sprintf(`"%s-%d"`, s.etag, len(s.articles))
	if s.etag != "" && before == "" && r.Header.Get("If-None-Match") == etag {
		s.asked = append(s.asked, "304")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.asked = append(s.asked, before)
	if s.etag != "" {
		w.Header().Set("ETag", etag)
	}
	write(w, rssOf(s.page(before)))
}

func (s *site) page(before string) []time.Time {
	articles := slices.Clone(s.articles)
	slices.SortFunc(articles, func(a, b time.Time) int { return b.Compare(a) })
	if before != "" {
		limit, err := time.Parse(time.RFC3339, before)
		if err != nil {
			return nil
		}
		articles = slices.DeleteFunc(articles, func(at time.Time) bool { return !at.Before(limit) })
	}
	return articles[:min(s.pageSize, len(articles))]
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func rssOf(articles []time.Time) string {
	var b strings.Builder
	b.WriteString(`<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>T</title>`)
	for _, at := range articles {
		fmt.Fprintf(&b, `<item><guid>%d</guid><title>at %s</title><link>/%d</link><dc:date>%s</dc:date></item>`,
			at.UnixNano(), at, at.UnixNano(), at.UTC().Format(time.RFC3339Nano))
	}
	b.WriteString(`</channel></rss>`)
	return b.String()
}
