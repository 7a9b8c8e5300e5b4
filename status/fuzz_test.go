package status_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"crawlkeeper/status"
)

func FuzzTime(f *testing.F) {
	for _, text := range []string{"2026-11-29T10:41:00.123456+00:00", "2026-11-29T10:41:00", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999999-23:59", "", "2026-11-29"} {
		f.Add(text, int64(1_774_744_200), int64(123_456_789))
	}
	f.Add("x", int64(-1)<<62, int64(0))
	f.Fuzz(func(t *testing.T, text string, seconds, nanos int64) {
		if at, err := status.ParseTime(text); err == nil {
			again, err := status.ParseTime(status.Isoformat(at))
			inside := at.Year() >= 1 && at.Year() <= 9999
			if err != nil || inside && !again.Equal(at.Truncate(time.Microsecond)) {
				t.Errorf("%q is %v, then %v, %v", text, at, again, err)
			}
		}
		// Whatever a clock shows, Python can read it.
		out := status.Isoformat(time.Unix(seconds, nanos))
		if at, err := status.ParseTime(out); err != nil || at.Year() < 1 || at.Year() > 9999 || status.Isoformat(at) != out {
			t.Errorf("%d, %d is %q, %v, %v", seconds, nanos, out, at, err)
		}
	})
}

// What an old or another manager wrote, or anybody else.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"state": "running", "pid": 4711, "started_at": null, "next_run_at": "2026-11-29T10:41:00+00:00", "last_exit": {"code": 1}}`))
	f.Add([]byte(`{"state":"restarting","pid":0,"rss_bytes":5,"cpu_percent":-3,"last_exit":{"at":"2026-11-29T10:41:00.5","ran_seconds":1e300,"signal":"SIG\u0000"},"problem":"\ud800"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second status.Record
		if json.Unmarshal(data, &first) != nil {
			return
		}
		out := first.AppendJSON(nil)
		if err := json.Unmarshal(out, &second); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if again := second.AppendJSON(nil); !bytes.Equal(again, out) {
			t.Errorf("%s\nis written as %s\nand then as %s", data, out, again)
		}
		if first.State() != second.State() || first.Pid != second.Pid || first.Phase != second.Phase {
			t.Errorf("%+v became %+v", first, second)
		}
	})
}

// Whatever is asked for over HTTP.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/output/a?follow=0", "")
	f.Add("HEAD", "/output/%2e%2e%2fa?follow", "x")
	f.Add("POST", "/metrics", "a=b")
	f.Add("OPTIONS", "*", "")
	f.Add("GET", "//output//a?follow=1&follow=0;", "")
	handler := status.Handler(status.HandlerOptions{})
	f.Fuzz(func(t *testing.T, method, target, body string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+target, bytes.NewReader([]byte(body)))
		if err != nil || target == "" || target[0] != '/' {
			return
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		read := method == http.MethodGet || method == http.MethodHead
		if answer.Code < 200 || answer.Code > 599 || answer.Code == http.StatusOK && (!read || body != "") {
			t.Errorf("%s %q with %d bytes: %d", method, target, len(body), answer.Code)
		}
	})
}
