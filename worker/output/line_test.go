package output

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crawlkeeper/internal/plain"
)

func TestLineFormats(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 10, 41, 7, 123456789, time.Local)
	stamp := at.Format("2006-01-02T15:04:05.000Z07:00")
	for name, tc := range map[string]struct {
		line       Line
		text, json string
	}{
		"plain": {
			Line{Stream: Stdout, At: at, Text: []byte("hello")},
			"10:41:07 news-1 stdout | hello\n",
			`{"time":"` + stamp + `","source":"news-1","stream":"stdout","line":"hello"}` + "\n",
		},
		"cut, empty": {
			Line{Stream: Stderr, At: at, Cut: true},
			"10:41:07 news-1 stderr |  [cut]\n",
			`{"time":"` + stamp + `","source":"news-1","stream":"stderr","line":"","cut":true}` + "\n",
		},
		"no UTF-8 and control characters": {
			Line{Stream: Stdout, At: at, Text: []byte("a\xffé\x1b\t\"\\\r")},
			"10:41:07 news-1 stdout | a\\xffé\\x1b    \"\\\n",
			`{"time":"` + stamp + `","source":"news-1","stream":"stdout","line":"a\ufffdé\u001b\t\"\\\r"}` + "\n",
		},
		"what a terminal obeys": {
			Line{Stream: Stdout, At: at, Text: []byte("\x1b[31mred\x1b[0m \u009b2J \u202egnirts \x7f")},
			`10:41:07 news-1 stdout | red \x9b2J \u202egnirts \x7f` + "\n",
			`{"time":"` + stamp + `","source":"news-1","stream":"stdout","line":"\u001b[31mred\u001b[0m \u009b2J \u202egnirts \u007f"}` + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(tc.line.Append(nil, Text, "news-1")); got != tc.text {
				t.Errorf("text:\n%q, want\n%q", got, tc.text)
			}
			if got := string(tc.line.Append(nil, JSON, "news-1")); got != tc.json {
				t.Errorf("JSON:\n%s want\n%s", got, tc.json)
			}
		})
	}
}

// Whatever the bytes are, the JSON is valid and says what encoding/json makes of them.
func FuzzJSONString(f *testing.F) {
	f.Add([]byte("a\xff\xc3\"\\\n\x00é\u2028\xf0\x9f\x98\x80"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := appendJSONString(nil, text)
		if !utf8.Valid(got) || strings.ContainsFunc(string(got), plain.Hidden) {
			t.Fatalf("not one harmless line of UTF-8: %q", got)
		}
		reference, err := json.Marshal(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var a, b string
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if err := json.Unmarshal(reference, &b); err != nil {
			t.Fatal(err)
		}
		if a != b {
			t.Fatalf("got %q, want %q", a, b)
		}
	})
}

func TestClosedReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"none":              {[]string{"Closing spider (finished)", ""}, ""},
		"as Scrapy says it": {[]string{"2026-11-29 10:41:07 [scrapy.core.engine] INFO: Spider closed (finished)"}, "finished"},
		"the last one":      {[]string{"Spider closed (shutdown)", "x", "Spider closed (cancelled)", "y"}, "cancelled"},
		"brackets in it":    {[]string{"Spider closed (banned (403))"}, "banned (403)"},
		"twice in a line":   {[]string{"Spider closed (a) Spider closed (b)"}, "b"},
		"never closed":      {[]string{"Spider closed (finis"}, "finis"},
		"no UTF-8":          {[]string{"Spider closed (\xff)"}, "\ufffd"},
		"endless":           {[]string{"Spider closed (" + strings.Repeat("x", 1000) + ")"}, strings.Repeat("x", maxReason)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []Line
			for _, text := range tc.lines {
				lines = append(lines, Line{Text: []byte(text)})
			}
			if got := ClosedReason(lines); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
