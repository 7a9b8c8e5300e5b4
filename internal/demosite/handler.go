package demosite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxSlow bounds what /slow waits.
const maxSlow = 120 * time.Second

func (s *Site) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /feeds/{file}", s.feed)
	mux.HandleFunc("GET /sections/{code}", s.section)
	mux.HandleFunc("GET /articles/{code}/{number}", s.article)
	mux.HandleFunc("GET /slow", s.slow)
	return mux
}

func (s *Site) index(w http.ResponseWriter, _ *http.Request) { s.render(w, "index", Feeds()) }

func (s *Site) feed(w http.ResponseWriter, r *http.Request) {
	f, ok := feedNamed(strings.TrimSuffix(r.PathValue("file"), ".xml"))
	before, err := parseBefore(r)
	switch {
	case !ok || r.PathValue("file") != f.Code+".xml":
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case f.Manner == Hanging:
		s.hang(w, r)
	default:
		s.serveFeed(w, r, f, before)
	}
}

func (s *Site) serveFeed(w http.ResponseWriter, r *http.Request, f Feed, before time.Time) {
	now := s.now()
	page := f.newest(s.seed, now, before)
	body, err := f.document(s.URL(), page)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	switch s.mishapOf(f, now) {
	case outage:
		http.Error(w, "the press is being repaired", http.StatusServiceUnavailable)
		return
	case torn:
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(body[:len(body)/2])
		return
	}
	sum := sha256.Sum256(body)
	w.Header().Set("Content-Type", "application/"+string(f.Format)+"+xml; charset=utf-8")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	var modified time.Time
	if len(page) > 0 {
		modified = page[0].Published
	}
	http.ServeContent(w, r, "", modified, bytes.NewReader(body)) // answers 304 where it may
}

// hang begins an answer and waits until the client or the site has enough.
func (s *Site) hang(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/rss+xml")
	_, _ = w.Write([]byte("<?xml version=\"1.0\"?>\n<rss version=\"2.0\"><channel><title>"))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func (s *Site) section(w http.ResponseWriter, r *http.Request) {
	f, ok := feedNamed(r.PathValue("code"))
	before, err := parseBefore(r)
	switch {
	case !ok:
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		page := f.newest(s.seed, s.now(), before)
		older := olderThan(page)
		if older != "" {
			older = "/sections/" + f.Code + older
		}
		s.render(w, "section", map[string]any{"Feed": f, "Page": page, "Older": older})
	}
}

func (s *Site) article(w http.ResponseWriter, r *http.Request) {
	f, ok := feedNamed(r.PathValue("code"))
	number, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if !ok || err != nil {
		http.NotFound(w, r)
		return
	}
	a, ok := f.find(s.seed, s.now(), number)
	if !ok {
		http.NotFound(w, r)
		return
	}
	s.render(w, "article", map[string]any{"Feed": f, "Article": a})
}

func (s *Site) slow(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.FormValue("seconds"))
	wait := time.Duration(seconds) * time.Second
	if err != nil || wait < 0 || wait > maxSlow {
		http.Error(w, fmt.Sprintf("seconds is a number from 0 to %d", int(maxSlow/time.Second)), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(wait):
		s.render(w, "slow", seconds)
	case <-r.Context().Done():
	}
}

func (s *Site) render(w http.ResponseWriter, name string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

func feedNamed(code string) (Feed, bool) {
	for _, f := range Feeds() {
		if f.Code == code {
			return f, true
		}
	}
	return Feed{}, false
}

// parseBefore reads ?before=; zero where there is none.
func parseBefore(r *http.Request) (time.Time, error) {
	text := r.FormValue("before")
	if text == "" {
		return time.Time{}, nil
	}
	before, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("before is a time as 2026-11-29T10:41:00Z: %w", err)
	}
	return before, nil
}
