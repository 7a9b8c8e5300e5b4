package feed

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func documentOf(body string) *document {
	return &document{Body: []byte(body), Base: &url.URL{Scheme: "https", Host: "news.example", Path: "/feeds/all"}}
}

const atomFeed = `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><id>urn:t</id><updated>2026-03-01T10:00:00Z</updated>
<entry><id>urn:1</id><title>One</title><link href="../1"/><summary>S</summary><updated>2026-03-01T12:00:00+02:00</updated>
<author><name>Ann</name></author></entry></feed>`

func TestParse(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	rss := func(inner string) string {
		return `<rss version="2.0"><channel><title>T</title><item>` + inner + `</item></channel></rss>`
	}
	for name, test := range map[string]struct {
		body string
		want item
	}{
		"atom": {atomFeed, item{Key: "urn:1", Link: "https://news.example/1", Title: "One", Summary: "S", Author: "Ann", Published: at}},
		"json": {
			`{"version":"https://jsonfeed.org/version/1.1","title":"T","items":[{"id":"1","url":"https://a/1","title":"One","content_text":"S","date_published":"2026-03-01T10:00:00Z"}]}`,
			item{Key: "1", Link: "https://a/1", Title: "One", Summary: "S", Published: at},
		},
		"rss":      {rss(`<guid>g</guid><link>https://a/1</link><title>One &amp; two</title><pubDate>Sun, 01 Mar 2026 10:00:00 GMT</pubDate>`), item{Key: "g", Link: "https://a/1", Title: "One & two", Published: at}},
		"no guid":  {rss(`<link>https://a/1</link>`), item{Key: "https://a/1", Link: "https://a/1"}},
		"script":   {rss(`<guid>g</guid><link>javascript:alert(1)</link>`), item{Key: "g"}},
		"bad date": {rss(`<guid>g</guid><pubDate>0001-01-01T00:00:00Z</pubDate>`), item{Key: "g"}},
		"latin-1": {
			"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>" + rss("<guid>g</guid><title>caf\xe9</title>"),
			item{Key: "g", Title: "café"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(t.Context(), documentOf(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]item{test.want}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing": "",
		"a page":  "<html><body>hello</body></html>",
		"torn":    atomFeed[:len(atomFeed)-120],
		"broken":  `<rss version="2.0"><channel><item><title>a</title></channel></rss`,
		// The parser itself ends the process at this depth: its stack overflows.
		"too deep":  `<rss version="2.0" xmlns:x="u"><channel>` + strings.Repeat("<x:a>", 2_000_000),
		"too many":  `<rss version="2.0"><channel>` + strings.Repeat("<item></item>", maxItems+1) + `</channel></rss>`,
		"deep ends": `<rss version="2.0" xmlns:x="u"><channel>` + strings.Repeat("</x:b>", 1000) + strings.Repeat("<x:a>", 2_000_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if items, err := parse(t.Context(), documentOf(body)); err == nil {
				t.Errorf("no error, %d items", len(items))
			}
		})
	}
}

func TestParseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, parse := range map[string]func(context.Context, *document) ([]item, error){"parse": parse, "parser": parseAll} {
		if _, err := parse(ctx, documentOf(atomFeed)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestItemIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", maxSummaryBytes)
	items, err := parse(t.Context(), documentOf(`<rss version="2.0"><channel><item><guid>`+long+`</guid><title>`+long+
		`</title><link>https://a/`+long+`</link><description>`+long+`</description></item></channel></rss>`))
	if err != nil {
		t.Fatal(err)
	}
	it := items[0]
	if len(it.Key) > maxKeyBytes || len(it.Title) > maxTitleBytes || len(it.Summary) > maxSummaryBytes || it.Link != "" {
		t.Errorf("key %d, title %d, summary %d, link %d bytes", len(it.Key), len(it.Title), len(it.Summary), len(it.Link))
	}
	if !utf8.ValidString(it.Title) {
		t.Error("the title was cut inside a character")
	}
}

func TestKeysOfItemsWithoutAny(t *testing.T) {
	t.Parallel()
	items, err := parse(t.Context(), documentOf(`<rss version="2.0"><channel><item><title>a</title></item><item><title>b</title></item></channel></rss>`))
	if err != nil {
		t.Fatal(err)
	}
	if len(items) != 2 || items[0].Key == "" || items[0].Key == items[1].Key {
		t.Errorf("keys %+v", items)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(atomFeed))
	f.Add([]byte(`<rss version="2.0"><channel><item><guid>g</guid><link>/a</link></item></channel></rss>`))
	f.Add([]byte(`{"version":"https://jsonfeed.org/version/1.1","items":[{"id":1}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := parse(t.Context(), documentOf(string(body)))
		if err != nil {
			return
		}
		for _, it := range items {
			for _, text := range []string{it.Key, it.Link, it.Title, it.Summary, it.Author} {
				if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
					t.Errorf("%q is no text for Postgres", text)
				}
			}
			if it.Key == "" || len(it.Key) > maxKeyBytes {
				t.Errorf("key of %d bytes", len(it.Key))
			}
		}
	})
}
