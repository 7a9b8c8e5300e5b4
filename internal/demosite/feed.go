package demosite

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// Format is how a feed is written.
type Format string

// The formats of feeds.
const (
	RSS  Format = "rss"
	Atom Format = "atom"
)

// Manner is how a feed behaves.
type Manner string

// The manners of feeds.
const (
	Steady  Manner = "steady"
	Flaky   Manner = "flaky"   // now and then an error, or half a document
	Hanging Manner = "hanging" // begins an answer and never ends it
)

// Feed is one feed of the site, and the section of pages that shows the same articles.
type Feed struct {
	Code   string
	Title  string
	Format Format
	Manner Manner
	Every  time.Duration // time between two articles, on average; whole seconds
}

// Path is where the feed is on the site.
func (f Feed) Path() string { return "/feeds/" + f.Code + ".xml" }

// Feeds are the feeds that every site has.
func Feeds() []Feed {
	return []Feed{
		{Code: "harbour-news", Title: "Harbour News", Format: RSS, Manner: Steady, Every: 3 * time.Second},
		{Code: "city-gazette", Title: "City Gazette", Format: RSS, Manner: Steady, Every: 5 * time.Second},
		{Code: "alpine-almanac", Title: "Alpine Almanac", Format: Atom, Manner: Steady, Every: 4 * time.Second},
		{Code: "flaky-tribune", Title: "Flaky Tribune", Format: Atom, Manner: Flaky, Every: 4 * time.Second},
		{Code: "hanging-post", Title: "Hanging Post", Format: RSS, Manner: Hanging, Every: 10 * time.Second},
	}
}

// Article is one article of a feed. Its number tells it apart from the others, and grows with time.
type Article struct {
	Number    int64
	Title     string
	Summary   string
	Text      []string // paragraphs
	Published time.Time
}

// PageSize is how many articles a feed and a section show.
const PageSize = 20

// pastDays is how far the past of the site reaches.
const pastDays = 30

// The time is cut into slots of Every, and each slot has one article, somewhere in it.

func (f Feed) slot(t time.Time) int64 { return t.Unix() / int64(f.Every/time.Second) }

// newest returns the articles published before a moment, the newest first, one page at most. The past ends pastDays
// before now.
func (f Feed) newest(seed uint64, now, before time.Time) []Article {
	if before.IsZero() || before.After(now) {
		before = now.Add(time.Nanosecond)
	}
	end := now.AddDate(0, 0, -pastDays)
	var page []Article
	for n := f.slot(before); len(page) < PageSize; n-- {
		a := f.article(seed, n)
		if a.Published.Before(end) {
			break
		}
		if a.Published.Before(before) {
			page = append(page, a)
		}
	}
	return page
}

// find returns an article that has been published.
func (f Feed) find(seed uint64, now time.Time, number int64) (Article, bool) {
	if number < f.slot(now.AddDate(0, 0, -pastDays)) || number > f.slot(now) {
		return Article{}, false
	}
	a := f.article(seed, number)
	return a, !a.Published.After(now)
}

// article writes the article of a slot.
func (f Feed) article(seed uint64, number int64) Article {
	r := random(seed, f.Code, strconv.FormatInt(number, 10))
	every := int64(f.Every / time.Second)
	a := Article{
		Number:    number,
		Title:     title(r),
		Summary:   sentence(r),
		Published: time.Unix(number*every+r.Int64N(every), 0).UTC(),
	}
	for range 2 + r.IntN(3) {
		a.Text = append(a.Text, paragraph(r))
	}
	return a
}

// random is a source of numbers that depends on its arguments alone.
func random(seed uint64, what ...string) *rand.Rand {
	h := fnv.New64a()
	for _, s := range what {
		_, _ = h.Write(append([]byte(s), 0))
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
