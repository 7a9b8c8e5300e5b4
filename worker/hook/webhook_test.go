package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWebhookIsSigned(t *testing.T) {
	t.Parallel()
	type got struct {
		header http.Header
		body   []byte
	}
	requests := make(chan got, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- got{r.Header, body}
	}))
	defer server.Close()
	h := &Hook{Point: "failure", URL: server.URL + "/hooks", Key: "hunter2", Timeout: patience}
	result := newRunner(t).Run(t.Context(), h, &Event{Hook: "failure", ID: "failure:1", Source: "s"}, nil)
	if result.Outcome != OK {
		t.Fatal(result)
	}
	r := <-requests
	timestamp := r.header.Get("X-Crawlkeeper-Timestamp")
	mac := hmac.New(sha256.New, []byte("hunter2")) // as the contract tells who receives it
	mac.Write([]byte(timestamp + "." + string(r.body)))
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.header.Get("X-Crawlkeeper-Signature") != want {
		t.Errorf("signature %s, want %s", r.header.Get("X-Crawlkeeper-Signature"), want)
	}
	if at, err := strconv.ParseInt(timestamp, 10, 64); err != nil || time.Since(time.Unix(at, 0)).Abs() > patience {
		t.Errorf("timestamp %s", timestamp)
	}
	var e Event
	if err := json.Unmarshal(r.body, &e); err != nil || e.Source != "s" || r.header.Get("X-Crawlkeeper-Id") != e.ID || r.header.Get("X-Crawlkeeper-Hook") != "failure" {
		t.Errorf("body %s, header %v", r.body, r.header)
	}
}

func TestRedirectsStayOnTheirHost(t *testing.T) {
	t.Parallel()
	taken := make(chan string, 9)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken <- "other" }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/near":
			http.Redirect(w, r, "/here", http.StatusPermanentRedirect)
		case "/get":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
		case "/here":
			body, _ := io.ReadAll(r.Body)
			taken <- r.Method + string(body[:1])
		}
	}))
	defer server.Close()
	run := newRunner(t)
	for path, want := range map[string]string{"/away": Failed, "/near": OK, "/get": Failed, "/round": Failed} {
		if got := run.Run(t.Context(), &Hook{URL: server.URL + path, Timeout: patience}, &Event{}, nil); got.Outcome != want {
			t.Errorf("%s: %+v, want %s", path, got, want)
		}
	}
	if len(taken) != 1 || <-taken != "POST{" {
		t.Error("an event went elsewhere, or lost its body")
	}
}

// answers is a server in memory, on a fake clock.
type answers struct {
	give []int // statuses; 0 is no connection, -1 none in time
	body string
	wait string // Retry-After
	at   []time.Time
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.at = append(a.at, time.Now())
	code := a.give[min(len(a.at), len(a.give))-1]
	switch code {
	case 0:
		return nil, errors.New("connection refused")
	case -1:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {a.wait}}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func TestAWebhookIsTriedAgain(t *testing.T) {
	t.Parallel()
	endless := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		answers answers
		waits   bool
		outcome string
		reason  string
		tries   int
		least   time.Duration // between the first and the last attempt
		most    time.Duration
	}{
		"taken":               {answers{give: []int{204}}, false, OK, "", 1, 0, 0},
		"at the third":        {answers{give: []int{503, 0, 200}}, false, OK, "", 3, 1500 * time.Millisecond, 3 * time.Second},
		"never":               {answers{give: []int{500}, body: "broken\n\n"}, false, Failed, "broken (status 500)", 4, 3500 * time.Millisecond, 7 * time.Second},
		"no connection":       {answers{give: []int{0}}, false, Failed, "connection refused", 4, 3500 * time.Millisecond, 7 * time.Second},
		"refused for good":    {answers{give: []int{403}, body: "no\nsuch key"}, false, Failed, "such key (status 403)", 1, 0, 0},
		"not now":             {answers{give: []int{429, 200}, wait: "7"}, false, OK, "", 2, 7 * time.Second, 7 * time.Second},
		"much later":          {answers{give: []int{429, 200}, wait: "86400"}, false, OK, "", 2, 30 * time.Second, 30 * time.Second},
		"it hangs":            {answers{give: []int{-1}}, false, TimedOut, "no answer in time", 4, 33500 * time.Millisecond, 37 * time.Second},
		"it hangs, one waits": {answers{give: []int{-1}}, true, TimedOut, "no answer in time", 1, 0, 0},
		"busy, one waits":     {answers{give: []int{503}, wait: "11"}, true, Failed, "status 503 Service Unavailable", 1, 0, 0},
		"a long answer":       {answers{give: []int{400}, body: endless}, false, Failed, endless[:keepAnswer] + " (status 400)", 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &Runner{client: &http.Client{Transport: &c.answers, CheckRedirect: sameHost}}
				h := &Hook{URL: "https://h/hunter2", Timeout: 10 * time.Second, Retries: 3, Waits: c.waits}
				began := time.Now()
				got := r.Run(t.Context(), h, &Event{}, nil)
				if got.Outcome != c.outcome || got.Reason != c.reason || len(c.answers.at) != c.tries {
					t.Errorf("%+v after %d tries", got, len(c.answers.at))
				}
				if took := c.answers.at[len(c.answers.at)-1].Sub(c.answers.at[0]); took < c.least || took > c.most {
					t.Errorf("the attempts took %s", took)
				}
				if c.waits && time.Since(began) > h.Timeout {
					t.Errorf("it was waited for %s", time.Since(began))
				}
			})
		})
	}
}

func TestAWebhookIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{client: &http.Client{Transport: &answers{give: []int{503}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if got := r.Run(ctx, &Hook{URL: "https://h", Timeout: time.Minute, Retries: 20}, &Event{}, nil); got.Outcome != Cancelled {
			t.Errorf("%+v", got)
		}
	})
}

func TestNoErrorShowsTheURL(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	for _, url := range []string{"http://127.0.0.1:1/hunter2", "http://u:hunter2@127.0.0.1:1", "http://\x7f/hunter2", "http://no.such.host.invalid/hunter2"} {
		h := &Hook{URL: url, Timeout: patience}
		got := r.Run(t.Context(), h, &Event{}, nil)
		if got.Outcome != Failed && got.Outcome != TimedOut || strings.Contains(got.Reason+h.Target(), "hunter2") {
			t.Errorf("%s: %+v, %s", url, got, h.Target())
		}
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	// printf '1700000000.{}' | openssl dgst -sha256 -hmac key
	const want = "sha256=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"
	if got := Sign("key", "1700000000", []byte("{}")); got != want {
		t.Errorf("%s", got)
	}
	if bytes.Equal([]byte(Sign("key", "1", nil)), []byte(Sign("key", "2", nil))) {
		t.Error("the timestamp is not signed")
	}
}
