package hook

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// sayer is a server that always says the same, without a network.
type sayer struct {
	t      *testing.T
	code   int
	header http.Header
	body   []byte
	host   string // the only one that may be asked
	asked  int
}

func (a *sayer) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.asked++; r.URL.Host != a.host || r.URL.Scheme != "http" || r.Method != http.MethodPost || r.Header.Get(headerSignature) == "" {
		a.t.Errorf("%s %s was asked, with the signature %q", r.Method, r.URL, r.Header.Get(headerSignature))
	}
	return &http.Response{
		StatusCode: a.code, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r,
		ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
	}, nil
}

// Whatever a server answers: nobody else is asked, the pauses keep to their bounds, and what is said of it is short and one line.
func FuzzWebhookAnswer(f *testing.F) {
	f.Add(uint16(200), "", "", []byte("ok"))
	f.Add(uint16(503), "7", "", []byte("busy\n\xff\n"))
	f.Add(uint16(429), "99999999999999999999", "", []byte{})
	f.Add(uint16(307), "", "http://elsewhere/", []byte{})
	f.Add(uint16(308), "", "/again", []byte{})
	f.Add(uint16(302), "-1", "//hooks.example/x", []byte(strings.Repeat("x", 9000)))
	f.Fuzz(func(t *testing.T, code uint16, after, location string, body []byte) {
		server := &sayer{t: t, code: 100 + int(code)%900, header: http.Header{"Retry-After": {after}, "Location": {location}}, body: body, host: "hooks.example"}
		r := &Runner{client: &http.Client{Transport: server, CheckRedirect: sameHost}}
		h := &Hook{URL: "http://hooks.example/a", Point: "final", Key: "secret", Timeout: time.Minute}
		err := r.attempt(t.Context(), h, "id", []byte("{}"))
		if server.asked < 1 || server.asked > 1+mostHops {
			t.Errorf("it was asked %d times", server.asked)
		}
		if (err == nil) != (server.code/100 == 2) {
			t.Errorf("status %d is %v", server.code, err)
		}
		if err == nil {
			return
		}
		if text := err.Error(); len(text) > keepAnswer+200 || strings.Contains(text, "\n") || strings.Contains(text, "secret") || !utf8.ValidString(text) && utf8.ValidString(location) {
			t.Errorf("it says %q", text)
		}
		for n := range 20 {
			if pause := pauseAfter(n, err); pause < firstPause/2 || pause > longPause {
				t.Errorf("the pause after attempt %d is %v", n, pause)
			}
		}
		failure, ok := err.(*statusError) //nolint:errorlint // as attempt returns it
		if !ok {
			if _, parses := url.Parse(location); server.code/100 != 3 {
				t.Errorf("status %d, to %q (%v) is %v", server.code, location, parses, err)
			}
			return
		}
		if again(err) != (failure.code == http.StatusTooManyRequests || failure.code >= 500) {
			t.Errorf("%v is tried again: %t", err, again(err))
		}
	})
}

// What a command printed becomes lines for the record of its end.
func FuzzLastLines(f *testing.F) {
	f.Add([]byte("a\r\n\n b \n\xff\n"))
	f.Add(bytes.Repeat([]byte("x\n"), 50))
	f.Fuzz(func(t *testing.T, output []byte) {
		lines := lastLines(output)
		if len(lines) > keepLines {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if line == "" || strings.TrimSpace(line) != line || strings.Contains(line, "\n") || !utf8.ValidString(line) {
				t.Errorf("%q", line)
			}
		}
		if again := lastLines([]byte(strings.Join(lines, "\n"))); len(again) != len(lines) {
			t.Errorf("%q becomes %q", lines, again)
		}
	})
}
