package feed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/mmcdole/gofeed"
	"golang.org/x/net/html/charset"
)

const (
	// maxDepth is how deep elements may be nested; the parser recurses.
	maxDepth = 256
	// maxItems is how many items one page may have; all are one transaction.
	maxItems = 20_000
	// maxKeyBytes keeps a key below what a Postgres index entry can hold.
	maxKeyBytes     = 1 << 10
	maxTitleBytes   = 4 << 10
	maxLinkBytes    = 8 << 10
	maxSummaryBytes = 256 << 10
)

// item is one entry of a feed, in the form in which it is stored: valid text of
// bounded length.
type item struct {
	Key       string // guid, else link, else a digest; never empty
	Link      string // http or https, absolute; or empty
	Title     string
	Summary   string
	Author    string
	Published time.Time // UTC; zero: the feed does not say
}

// parse reads a feed, in a goroutine that it leaves behind when ctx ends: the parser
// looks at no context, and a large feed takes it seconds.
func parse(ctx context.Context, doc *document) ([]item, error) {
	type result struct {
		items []item
		err   error
	}
	done := make(chan result, 1)
	go func() {
		items, err := parseAll(ctx, doc)
		done <- result{items, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("parse feed: %w", r.err)
		}
		return r.items, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("parse feed: %w", context.Cause(ctx))
	}
}

func parseAll(ctx context.Context, doc *document) (items []item, err error) {
	defer func() {
		if p := recover(); p != nil { // of the parser, on input that it does not expect
			items, err = nil, fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	if err := checkDepth(ctx, doc.Body); err != nil {
		return nil, err
	}
	parsed, err := gofeed.NewParser().Parse(until(ctx, doc.Body))
	if err != nil {
		return nil, because(ctx, err)
	}
	if len(parsed.Items) > maxItems {
		return nil, fmt.Errorf("it has %d items, more than %d", len(parsed.Items), maxItems)
	}
	items = make([]item, 0, len(parsed.Items))
	for _, entry := range parsed.Items {
		if entry != nil {
			items = append(items, newItem(entry, doc.Base))
		}
	}
	return items, nil
}

// until reads data, and fails once ctx has ended.
func until(ctx context.Context, data []byte) io.Reader {
	reader := bytes.NewReader(data)
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return reader.Read(p[:min(len(p), 64<<10)])
	})
}

// checkDepth refuses XML that is nested so deeply that the parser, which recurses,
// would end the process. What is no XML is left to the parser.
func checkDepth(ctx context.Context, body []byte) error {
	decoder := xml.NewDecoder(until(ctx, body))
	decoder.Strict = false
	decoder.CharsetReader = charset.NewReaderLabel
	for depth := 0; ; {
		token, err := decoder.RawToken()
		if err != nil {
			return context.Cause(ctx)
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth = max(depth-1, 0)
		}
		if depth > maxDepth {
			return errors.New("its elements are nested too deeply")
		}
	}
}

func newItem(entry *gofeed.Item, base *url.URL) item {
	it := item{
		Link:      webLink(entry.Link, base),
		Title:     bounded(entry.Title, maxTitleBytes),
		Summary:   bounded(firstOf(entry.Description, entry.Content), maxSummaryBytes),
		Published: firstTime(entry.PublishedParsed, entry.UpdatedParsed),
	}
	if len(entry.Authors) > 0 && entry.Authors[0] != nil {
		it.Author = bounded(firstOf(entry.Authors[0].Name, entry.Authors[0].Email), maxTitleBytes)
	}
	it.Key = firstOf(clean(entry.GUID), it.Link, clean(entry.Link))
	if it.Key == "" {
		it.Key = digest(it.Title + "\x00" + it.Summary + "\x00" + it.Published.String())
	}
	if len(it.Key) > maxKeyBytes {
		it.Key = digest(it.Key)
	}
	return it
}

// webLink makes a link absolute; one that is no http or https is dropped.
func webLink(raw string, base *url.URL) string {
	raw = clean(raw)
	if raw == "" || len(raw) > maxLinkBytes {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.String()
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// firstTime is the first time that is one; before 1970 there were no feeds, only
// wrong clocks.
func firstTime(times ...*time.Time) time.Time {
	for _, t := range times {
		if t != nil && t.Year() >= 1970 && t.Year() < 10000 {
			return t.UTC().Truncate(time.Microsecond)
		}
	}
	return time.Time{}
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
	return ""
}

// clean makes text that Postgres takes: valid UTF-8 without zero bytes, trimmed.
func clean(text string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", ""))
}

// bounded is clean text of at most limit bytes, cut between characters.
func bounded(text string, limit int) string {
	if text = clean(text); len(text) > limit {
		return strings.TrimRight(strings.ToValidUTF8(text[:limit], ""), " ")
	}
	return text
}

// errorText is an error in words that fit a column.
func errorText(err error) string { return bounded(err.Error(), 1000) }
