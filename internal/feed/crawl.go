package feed

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// beforeParam is the query parameter that asks a site for the page of items
// published before a moment (RFC 3339). A site that does not know it answers with
// its newest page, which has nothing older, and the history ends there.
const beforeParam = "before"

// crawl fetches the feed and, while a history is wanted, one older page, and stores
// both. db is what the database's work may use: it outlives ctx a little.
func (c *crawler) crawl(ctx, db context.Context, r *run) error {
	address, err := c.address(r.tick)
	if err != nil {
		return err
	}
	var k known
	if err := c.retry(ctx, func() (err error) { k, err = c.store.load(db, address); return err }); err != nil {
		return err
	}
	walk, err := c.planWalk(ctx, db, r.tick.History, k)
	switch {
	case err != nil:
		return err
	case walk == nil:
		return c.crawlFeed(ctx, db, r, address, k.Validators, keepRule{since: cutoff(r.tick, r.started)}, true)
	case walk.Position.IsZero():
		return c.beginHistory(ctx, db, r, address, *walk)
	}
	if err := c.crawlFeed(ctx, db, r, address, k.Validators, keepRule{since: walk.Target}, false); err != nil {
		return err
	}
	return c.continueHistory(ctx, db, r, address, *walk)
}

// address is where the feed is: as the tick says, else the crawler's own option.
func (c *crawler) address(t tick) (*url.URL, error) {
	raw := cmp.Or(t.URL, c.opts.URL)
	if raw == "" {
		return nil, errNoURL
	}
	return feedURL(raw)
}

// planWalk says where the walk through the history stands, or nil where none is
// wanted. The row of the source wins over the tick.
func (c *crawler) planWalk(ctx, db context.Context, wanted *history, k known) (*history, error) {
	if wanted == nil || (k.HasSource && k.HistoryDone) {
		return nil, nil
	}
	walk := *wanted
	if k.HasSource {
		walk.Position, walk.PositionIsDate = k.Position, k.PositionDate
	}
	if walk.Position.IsZero() || !walk.PositionIsDate {
		return &walk, nil
	}
	err := c.retry(ctx, func() (err error) {
		walk.Position, err = c.store.exactPosition(db, walk.Position)
		return err
	})
	return &walk, err
}

// cutoff is the oldest time of publication that is stored where no history is wanted.
func cutoff(t tick, started time.Time) time.Time {
	if t.Backfill == 0 {
		return time.Time{}
	}
	return started.Add(-t.Backfill)
}

// keepRule says which items are stored. One without a time is always kept: nobody
// can say that it is too old, and it is stored only once.
type keepRule struct{ since time.Time }

func (k keepRule) filter(items []item) []item {
	kept := make([]item, 0, len(items))
	for _, it := range items {
		if it.Published.IsZero() || !it.Published.Before(k.since) {
			kept = append(kept, it)
		}
	}
	return kept
}

// crawlFeed fetches the feed itself, by a conditional request.
func (c *crawler) crawlFeed(ctx, db context.Context, r *run, address *url.URL, v validators, keep keepRule, last bool) error {
	doc, err := c.fetch.get(ctx, address, v)
	if err != nil {
		return err
	}
	state := &feedState{Address: address, NotModified: doc.NotModified, Validators: doc.Validators}
	var items []item
	if !doc.NotModified {
		if items, err = parse(ctx, doc); err != nil {
			return err
		}
	}
	c.countPage(r)
	return c.save(ctx, db, r, page{Items: keep.filter(items), State: state}, last)
}

// beginHistory takes the feed itself as the first page of the history, whole: an
// answer "not modified" would hide what an earlier run left out as too old.
func (c *crawler) beginHistory(ctx, db context.Context, r *run, address *url.URL, walk history) error {
	doc, err := c.fetch.get(ctx, address, validators{})
	if err != nil {
		return err
	}
	items, err := parse(ctx, doc)
	if err != nil {
		return err
	}
	c.countPage(r)
	p := page{
		Items: keepRule{since: walk.Target}.filter(items),
		State: &feedState{Address: address, Validators: doc.Validators},
	}
	if len(items) > 0 { // an empty feed may fill later
		p.History = walk.after(oldest(items))
	}
	return c.save(ctx, db, r, p, true)
}

// continueHistory fetches the page before the position and moves the position to
// its oldest item.
func (c *crawler) continueHistory(ctx, db context.Context, r *run, address *url.URL, walk history) error {
	items, move, err := walk.step(func(before time.Time) ([]item, error) {
		older, err := c.olderPage(ctx, address, before)
		if err == nil {
			c.countPage(r)
		}
		return older, err
	})
	if err != nil {
		return err
	}
	p := page{Items: keepRule{since: walk.Target}.filter(items), History: move}
	return c.save(ctx, db, r, p, true)
}

// olderPage fetches the items before a moment. A site that has no such page has no items.
func (c *crawler) olderPage(ctx context.Context, address *url.URL, before time.Time) ([]item, error) {
	older := *address
	query := older.Query()
	query.Set(beforeParam, before.UTC().Format(time.RFC3339))
	older.RawQuery = query.Encode()
	doc, err := c.fetch.get(ctx, &older, validators{})
	if status, ok := errors.AsType[*statusError](err); ok && (status.code == http.StatusNotFound || status.code == http.StatusGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(ctx, doc)
}
