package feed

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Limits that a busy machine does not reach, and such as a slow server does reach.
var (
	wideLimits  = Limits{Total: 30 * time.Second, Read: 30 * time.Second, Bytes: 1 << 16, Redirects: 3}
	tightLimits = Limits{Total: 2 * time.Second, Read: time.Second, Bytes: 1 << 16, Redirects: 3}
)

func serve(t *testing.T, handler http.HandlerFunc) *url.URL {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	u, err := url.Parse(server.URL + "/feed?token=hidden")
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("ann", "hidden")
	return u
}

func newTestFetcher(t *testing.T, limits Limits) *fetcher {
	f := newFetcher(limits.withDefaults())
	t.Cleanup(f.close)
	return f
}

// write sends a piece at once.
func write(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

func TestFetchIsConditional(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != userAgent {
			t.Errorf("User-Agent %q", r.UserAgent())
		}
		if r.Header.Get("If-None-Match") == `"a"` && r.Header.Get("If-Modified-Since") == "then" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", `"a"`)
		w.Header().Set("Last-Modified", "then")
		write(w, "body")
	})
	f := newTestFetcher(t, wideLimits)
	first, err := f.get(t.Context(), address, validators{})
	if err != nil {
		t.Fatal(err)
	}
	if string(first.Body) != "body" || first.Validators != (validators{ETag: `"a"`, LastModified: "then"}) {
		t.Errorf("got %q, %+v", first.Body, first.Validators)
	}
	second, err := f.get(t.Context(), address, first.Validators)
	if err != nil || !second.NotModified {
		t.Errorf("got %+v, %v; want not modified", second, err)
	}
}

func TestFetchFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
		limits  Limits
	}{
		"status":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "status 500 Internal Server Error", wideLimits},
		"304 unasked":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "status 304", wideLimits},
		"204":           {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "status 204", wideLimits},
		"no header":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout awaiting response headers", tightLimits},
		"body stops":    {func(w http.ResponseWriter, r *http.Request) { write(w, "a"); <-r.Context().Done() }, errSlow.Error(), tightLimits},
		"body drips":    {drip, errTooLong.Error(), tightLimits},
		"huge":          {func(w http.ResponseWriter, _ *http.Request) { write(w, strings.Repeat("a", 1<<16+1)) }, errTooLarge.Error(), wideLimits},
		"huge unpacked": {bomb, errTooLarge.Error(), wideLimits},
		"endless":       {endless, errTooLarge.Error(), wideLimits},
		"torn":          {torn, "unexpected EOF", wideLimits},
		"redirects":     {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, errRedirects.Error(), wideLimits},
		"redirect to file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, errNoWebURL.Error(), wideLimits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, test.handler)
			began := time.Now()
			_, err := newTestFetcher(t, test.limits).get(t.Context(), address, validators{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v does not say %q", err, test.want)
			}
			if strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), address.Host+"/feed") {
				t.Errorf("error shows a secret or no address: %v", err)
			}
			if took := time.Since(began); test.limits == tightLimits && took > soon {
				t.Errorf("took %v", took)
			}
		})
	}
}

// drip sends a byte now and then, faster than the limit for one read.
func drip(w http.ResponseWriter, r *http.Request) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		write(w, "a")
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}

func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	packed := gzip.NewWriter(w)
	_, _ = io.CopyN(packed, zeros{}, 1<<20)
	_ = packed.Close()
}

func endless(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) }

func torn(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	write(w, "a")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestFetchFollowsRedirects(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/feed/x/x/x" {
			http.Redirect(w, r, r.URL.Path+"/x", http.StatusMovedPermanently)
			return
		}
		write(w, "body")
	})
	doc, err := newTestFetcher(t, wideLimits).get(t.Context(), address, validators{})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Base.Path != "/feed/x/x/x" {
		t.Errorf("base %v", doc.Base)
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		write(w, "a")
		cancel()
		<-r.Context().Done()
	})
	_, err := newTestFetcher(t, Limits{}).get(ctx, address, validators{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAbsurdValidatorsAreDropped(t *testing.T) {
	t.Parallel()
	got := validatorsOf(http.Header{"Etag": {strings.Repeat("a", maxValidatorBytes+1)}, "Last-Modified": {"\xff"}})
	if got != (validators{}) {
		t.Errorf("kept %+v", got)
	}
}
