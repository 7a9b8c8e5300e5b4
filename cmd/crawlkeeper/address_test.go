package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"crawlkeeper/status"
)

func TestHolderURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		http, host string
		want       string // "": refused
	}{
		{"127.0.0.1:9870", "here", "http://127.0.0.1:9870"},
		{"127.0.0.1:9870", "there", ""},
		{"[::1]:9870", "there", ""},
		{"[::]:9870", "here", "http://127.0.0.1:9870"},
		{"0.0.0.0:9870", "here", "http://127.0.0.1:9870"},
		{"[::]:9870", "there", "http://there:9870"},
		{"10.0.0.7:9870", "there", "http://10.0.0.7:9870"},
		{"", "here", ""},
		{"nonsense", "here", ""},
	} {
		got, err := holderURL(status.Holder{Name: "m", Host: test.host, HTTP: test.http}, "here")
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s on %s is %q, %v; want %q", test.http, test.host, got, err, test.want)
		}
	}
}

func TestListenURL(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:9870": "http://127.0.0.1:9870", ":9870": "http://127.0.0.1:9870", "[::]:1": "http://127.0.0.1:1",
		"": "", "127.0.0.1:0": "", "nonsense": "",
	} {
		if got, err := listenURL(listen); got != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, %v; want %q", listen, got, err, want)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "standby: \x1b[31mother is active", http.StatusServiceUnavailable)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	at := "--http-listen=" + strings.TrimPrefix(server.URL, "http://")
	call(t, nil, "health", at).want(t, exitDone, "ok\n", "")
	call(t, nil, "health", at, "--ready").want(t, exitFailed, `standby: \x1b[31mother is active`, "")
	call(t, nil, "health", at, "--ready", "--json").want(t, exitFailed, `"ok":false`, "")
	call(t, nil, "health", "--http-listen=127.0.0.1:1").want(t, exitNoManager, "", "there is no manager at http://127.0.0.1:1/healthz")
	call(t, []string{"CRAWLKEEPER_HTTP_LISTEN=127.0.0.1:0"}, "health").want(t, exitUsage, "", "any free port")
}

// A manager that hangs must not hang its health check.
func TestHealthGivesUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	at := "--http-listen=" + strings.TrimPrefix(server.URL, "http://")
	call(t, nil, "health", at, "--timeout", "50ms").want(t, exitFailed, "", context.DeadlineExceeded.Error())
}
