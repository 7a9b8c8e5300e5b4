package demosite

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"time"
)

const atomNamespace = "http://www.w3.org/2005/Atom"

type link struct {
	Rel  string `xml:"rel,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type rssDocument struct {
	XMLName xml.Name `xml:"rss"`
	Version string   `xml:"version,attr"`
	Atom    string   `xml:"xmlns:atom,attr"`
	Channel struct {
		Title       string    `xml:"title"`
		Link        string    `xml:"link"`
		Description string    `xml:"description"`
		Links       []link    `xml:"atom:link"`
		Items       []rssItem `xml:"item"`
	} `xml:"channel"`
}

type rssItem struct {
	Title       string  `xml:"title"`
	Link        string  `xml:"link"`
	GUID        rssGUID `xml:"guid"`
	Published   string  `xml:"pubDate"`
	Description string  `xml:"description"`
}

type rssGUID struct {
	PermaLink bool   `xml:"isPermaLink,attr"`
	ID        string `xml:",chardata"`
}

type atomDocument struct {
	XMLName xml.Name    `xml:"feed"`
	XMLNS   string      `xml:"xmlns,attr"`
	Title   string      `xml:"title"`
	ID      string      `xml:"id"`
	Updated string      `xml:"updated"`
	Links   []link      `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomEntry struct {
	Title     string `xml:"title"`
	ID        string `xml:"id"`
	Links     []link `xml:"link"`
	Published string `xml:"published"`
	Updated   string `xml:"updated"`
	Summary   string `xml:"summary"`
}

// document writes a page of a feed. base is the address of the site.
func (f Feed) document(base string, page []Article) ([]byte, error) {
	var body any
	if f.Format == Atom {
		body = f.atom(base, page)
	} else {
		body = f.rss(base, page)
	}
	text, err := xml.MarshalIndent(body, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write feed %s: %w", f.Code, err)
	}
	return append([]byte(xml.Header), text...), nil
}

func (f Feed) rss(base string, page []Article) *rssDocument {
	d := &rssDocument{Version: "2.0", Atom: atomNamespace}
	d.Channel.Title = f.Title
	d.Channel.Link = base + "/sections/" + f.Code
	d.Channel.Description = "What happens, every " + f.Every.String()
	d.Channel.Links = f.links(base, page)
	for _, a := range page {
		d.Channel.Items = append(d.Channel.Items, rssItem{
			Title: a.Title, Link: f.articleURL(base, a), GUID: rssGUID{ID: f.id(a)},
			Published: a.Published.Format(time.RFC1123Z), Description: a.Summary,
		})
	}
	return d
}

func (f Feed) atom(base string, page []Article) *atomDocument {
	d := &atomDocument{XMLNS: atomNamespace, Title: f.Title, ID: "tag:demo,2026:" + f.Code, Links: f.links(base, page)}
	if len(page) > 0 {
		d.Updated = page[0].Published.Format(time.RFC3339)
	}
	for _, a := range page {
		published := a.Published.Format(time.RFC3339)
		d.Entries = append(d.Entries, atomEntry{
			Title: a.Title, ID: f.id(a), Links: []link{{Rel: "alternate", Href: f.articleURL(base, a)}},
			Published: published, Updated: published, Summary: a.Summary,
		})
	}
	return d
}

// links name the feed itself and the page of older articles.
func (f Feed) links(base string, page []Article) []link {
	links := []link{{Rel: "self", Href: base + f.Path()}}
	if older := olderThan(page); older != "" {
		links = append(links, link{Rel: "next", Href: base + f.Path() + older})
	}
	return links
}

// olderThan is the query for the page after this one; empty after the last page.
func olderThan(page []Article) string {
	if len(page) < PageSize {
		return ""
	}
	return "?" + url.Values{"before": {page[len(page)-1].Published.Format(time.RFC3339)}}.Encode()
}

func (f Feed) id(a Article) string { return fmt.Sprintf("tag:demo,2026:%s/%d", f.Code, a.Number) }

func (f Feed) articleURL(base string, a Article) string {
	return fmt.Sprintf("%s/articles/%s/%d", base, f.Code, a.Number)
}
