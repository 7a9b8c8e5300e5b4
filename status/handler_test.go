package status_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

// outputs is a manager's outputs: source "a" has two lines, and what is fed follows.
type outputs struct{ feed chan string }

func (o *outputs) lines(ctx context.Context, code string, follow bool) (iter.Seq[[]byte], bool) {
	if code != "a" && code != "ü:1" {
		return nil, false
	}
	return func(yield func([]byte) bool) {
		if !yield([]byte("one\x1b[31m")) || !yield([]byte{0xff}) {
			return
		}
		for follow {
			select {
			case <-ctx.Done():
				return
			case line := <-o.feed:
				if !yield([]byte(line)) {
					return
				}
			}
		}
	}, true
}

func TestHandler(t *testing.T) {
	t.Parallel()
	out := &outputs{}
	handler := status.Handler(status.HandlerOptions{
		Ready:   func() error { return errors.New("manager m2 holds the key") },
		Metrics: status.NewMetrics(status.MetricsOptions{}), Output: out.lines,
	})
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", "/healthz", "", 200, "ok\n"},
		{"HEAD", "/healthz", "", 200, ""},
		{"POST", "/healthz", "", 405, ""},
		{"DELETE", "/output/a", "", 405, ""},
		{"GET", "/healthz", "x", 413, "no body"},
		{"GET", "/readyz", "", 503, "manager m2 holds the key\n"},
		{"GET", "/metrics", "", 200, "crawlkeeper_active 0"},
		{"GET", "/output/a", "", 200, "one\x1b[31m\n\xff\n"},
		{"GET", "/output/a?follow=0", "", 200, "one\x1b[31m\n\xff\n"},
		{"HEAD", "/output/a?follow=1", "", 200, ""},
		{"GET", "/output/%C3%BC:1", "", 200, "one"},
		{"GET", "/output/b", "", 404, `no source "b"`},
		{"GET", "/output/a?follow=maybe", "", 400, "follow must be"},
		{"GET", "/output/a%20b", "", 400, "can be no source"},
		{"GET", "/output/a%2Fb", "", 400, "can be no source"},
		{"GET", "/output/-a", "", 400, "can be no source"},
		{"GET", "/output/.a", "", 400, "can be no source"},
		{"GET", "/output/all", "", 400, "can be no source"},
		{"GET", "/output/adapter:a", "", 400, "can be no source"},
		{"GET", "/output/%FF", "", 400, "can be no source"},
		{"GET", "/output/a%00", "", 400, "can be no source"},
		{"GET", "/output/" + strings.Repeat("a", 129), "", 400, "can be no source"},
		{"GET", "/output/a/b", "", 404, ""},
		{"GET", "/output/", "", 404, ""},
		{"GET", "/", "", 404, ""},
		{"GET", "/debug/pprof/", "", 404, ""},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.target, strings.NewReader(c.body)))
		if w.Code != c.status || c.method != "HEAD" && !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: got %d %q, want %d %q", c.method, c.target, w.Code, w.Body, c.status, c.want)
		}
	}
}

func TestHandlerShowsPprofWhereSwitchedOn(t *testing.T) {
	t.Parallel()
	handler := status.Handler(status.HandlerOptions{Pprof: true})
	for target, want := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200, "/metrics": 404, "/output/a": 404} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
		if w.Code != want {
			t.Errorf("%s: got %d", target, w.Code)
		}
	}
}

// serve runs a server on a free port until the returned function is called, which wants it to end well.
func serve(t *testing.T, handler http.Handler) (url string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	bound, done := make(chan net.Addr, 1), make(chan error, 1)
	server := &status.Server{Listen: "127.0.0.1:0", Handler: handler, Logger: testenv.Logger(t), Bound: func(a net.Addr) { bound <- a }}
	go func() { done <- server.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("server: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("server did not end")
		}
	})
	t.Cleanup(end)
	return "http://" + (<-bound).String(), end
}

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestFollow(t *testing.T) {
	t.Parallel()
	out := &outputs{feed: make(chan string)}
	url, end := serve(t, status.Handler(status.HandlerOptions{Output: out.lines}))
	lines := bufio.NewReader(get(t, url+"/output/a?follow=1").Body)
	want := func(want string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); got != want+"\n" {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	want("one\x1b[31m")
	want("\xff")
	for _, line := range []string{"two", "", "three"} {
		out.feed <- line
		want(line)
	}
	end() // the manager ends, and the stream with it
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestFollowersAreBounded(t *testing.T) {
	t.Parallel()
	out := &outputs{}
	url, _ := serve(t, status.Handler(status.HandlerOptions{Output: out.lines}))
	for range status.MaxFollowers {
		if r := get(t, url+"/output/a?follow=1"); r.StatusCode != http.StatusOK {
			t.Fatalf("status %s", r.Status)
		}
	}
	if r := get(t, url+"/output/a?follow=1"); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one too many: status %s", r.Status)
	}
	if r := get(t, url+"/output/a"); r.StatusCode != http.StatusOK {
		t.Errorf("without following: status %s", r.Status)
	}
}

// A follower that goes away gives its place back.
func TestFollowerThatLeaves(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	url, _ := serve(t, status.Handler(status.HandlerOptions{
		Output: func(ctx context.Context, _ string, _ bool) (iter.Seq[[]byte], bool) {
			return func(func([]byte) bool) { <-ctx.Done(); close(left) }, true
		},
	}))
	_ = get(t, url+"/output/a?follow=1").Body.Close()
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("its handler goes on")
	}
}

func TestBusyAddress(t *testing.T) {
	t.Parallel()
	busy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close() //nolint:errcheck // closed below too
	server := status.Server{Listen: busy.Addr().String(), Handler: http.NotFoundHandler(), Logger: testenv.Logger(t)}
	if err := server.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another program listens on "+server.Listen) {
		t.Fatalf("got %v", err)
	}
	bound := make(chan net.Addr, 1)
	server.RetryBusy, server.Bound = true, func(a net.Addr) { bound <- a }
	runUntilEnd(t, server.Run)
	_ = busy.Close()
	select {
	case <-bound:
	case <-time.After(time.Minute):
		t.Error("the address is free and not taken")
	}
}

func TestServerWithoutAddressWaits(t *testing.T) {
	t.Parallel()
	runUntilEnd(t, (&status.Server{}).Run)
	bad := status.Server{Listen: "nowhere:port:x", Logger: testenv.Logger(t)}
	if bad.Run(t.Context()) == nil {
		t.Error("a bad address gave no error")
	}
}
