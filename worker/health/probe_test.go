package health

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	status, body := 200, "all is well"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Location", "/hangs") // is not followed
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	for _, c := range []struct {
		status, right int
		want, why     string
	}{
		{200, 0, "", ""}, {302, 0, "", ""}, {404, 0, "", "status 404"}, {404, 404, "", ""}, {200, 404, "", "status 200"},
		{200, 0, "well", ""}, {200, 0, "ill", `"ill" is not in the answer`}, {199, 0, "", "status"},
	} {
		if status = c.status; status == 199 {
			status = 500
		}
		err := probe(t.Context(), nil, 0, Check{Kind: HTTP, URL: server.URL, Status: c.right, Want: c.want})
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := probe(ctx, nil, 0, Check{Kind: HTTP, URL: server.URL + "/hangs"}); err == nil || err.Error() != "no answer in time" {
		t.Errorf("one that hangs: %v", err)
	}
	server.Close()
	secret := strings.Replace(server.URL, "http://", "http://user:secret@", 1)
	if err := probe(t.Context(), nil, 0, Check{Kind: HTTP, URL: secret}); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestTCP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	check := Check{Kind: TCP, Address: l.Addr().String()}
	if err := probe(t.Context(), nil, 0, check); err != nil {
		t.Errorf("somebody listens: %v", err)
	}
	l.Close()
	if err := probe(t.Context(), nil, 0, check); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestCommandIsHeldAgainstItsOutput(t *testing.T) {
	t.Parallel()
	var failed error
	w := &watch{Target: Target{Command: func(_ context.Context, nth int, argv []string) ([]byte, error) {
		return []byte(strings.Join(argv, " ")), failed
	}}}
	check := Check{Kind: Command, Argv: []string{"echo", "fine"}, Want: "fine"}
	if err := probe(t.Context(), w, 0, check); err != nil {
		t.Error(err)
	}
	check.Want = "better"
	if err := probe(t.Context(), w, 0, check); err == nil {
		t.Error("it printed something else")
	}
	failed = errors.New("exit 1")
	if err := probe(t.Context(), w, 0, check); !errors.Is(err, failed) {
		t.Errorf("it failed: %v", err)
	}
}
