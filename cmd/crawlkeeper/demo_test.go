package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crawlkeeper/configs"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		times []time.Duration
		want  float64
	}{
		{nil, 0},
		{[]time.Duration{3140 * time.Microsecond}, 3.1},
		{[]time.Duration{9 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}, 2},
	} {
		if got := median(test.times); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.times, got, test.want)
		}
	}
}

// A variable of the user's would win over the demo's configuration, and its manager would work on real servers.
func TestDemoManagerGetsNoneOfOurVariables(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/bin", "CRAWLKEEPER_REDIS_URL=redis://production", "TMPDIR=/var/tmp", "CRAWLKEEPER_SOURCE=x"}
	if got := managerEnviron(environ, "/demo"); !slices.Equal(got, []string{"PATH=/bin", "TMPDIR=/demo"}) {
		t.Errorf("it gets %q", got)
	}
	if len(environ) != 4 || environ[1] == "" {
		t.Errorf("the caller's list was changed: %q", environ)
	}
}

func TestDemoCountsTicks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "# TYPE crawlkeeper_ticks_total counter\n",
			"crawlkeeper_ticks_total{source=\"a b\",trigger=\"startup\"} 3\n",
			"crawlkeeper_ticks_total{source=\"c\",trigger=\"schedule\"} 1e+01\n",
			"crawlkeeper_ticks_skipped_total{source=\"c\"} 7\n")
	}))
	defer server.Close()
	w := &demoWorld{config: configs.Default()}
	w.config.HTTP.Listen = strings.TrimPrefix(server.URL, "http://")
	got, err := w.countTicks(t.Context())
	if err != nil || got != 13 {
		t.Errorf("%d ticks (%v), want 13", got, err)
	}
}

func TestDemoRedrawsInPlace(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	redraw(&b, []byte("one\ntwo\n"))
	if want := "\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J"; b.String() != want {
		t.Errorf("it wrote %q, want %q", b.String(), want)
	}
}

func TestDemoFindsTheRepository(t *testing.T) {
	t.Parallel()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Error(err)
	}
}
