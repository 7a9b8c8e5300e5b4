package feed

import (
	"net/http"
	"strings"
	"testing"
)

// Addresses that ticks and payloads name, and what servers answer beside a document.
func FuzzAddress(f *testing.F) {
	for _, raw := range []string{"http://a/b?c#d", "https://u:p@[::1]:8/x", "HTTP://A", "http:///x", "http://%41", "ftp://a", "//a", "http://a\x00", "http://a b/", "http://[::1%25eth0]/"} {
		f.Add(raw, `W/"x"`, "Sun, 29 Nov 2026 10:41:00 GMT")
	}
	f.Add("http://a", strings.Repeat("x", maxValidatorBytes+1), "\x00")
	f.Fuzz(func(t *testing.T, raw, tag, modified string) {
		if u, err := feedURL(raw); err == nil {
			if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "" {
				t.Errorf("%q is %+v", raw, u)
			}
			again, err := feedURL(u.String())
			if err != nil || again.String() != u.String() {
				t.Errorf("%q is %q, then %q, %v", raw, u, again, err)
			}
		}
		v := validatorsOf(http.Header{"Etag": {tag}, "Last-Modified": {modified}})
		for kept, sent := range map[string]string{v.ETag: tag, v.LastModified: modified} {
			if kept != "" && kept != tag && kept != modified || len(kept) > maxValidatorBytes || strings.Contains(kept, "\x00") {
				t.Errorf("%q is kept as %q", sent, kept)
			}
		}
	})
}
