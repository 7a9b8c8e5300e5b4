-- Tables of the built-in feed crawler.

-- +goose Up

-- What was found in feeds. guid is the item's own id, else its link; the crawler cuts or hashes long ones.
CREATE TABLE crawl_feed_items (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  source text NOT NULL,
  guid text NOT NULL,
  url text,
  title text,
  summary text,
  author text,
  published_at timestamptz,
  fetched_at timestamptz NOT NULL DEFAULT now(),
  run_id text,                   -- the text of crawl_runs.id
  UNIQUE (source, guid)
);
CREATE INDEX ix_crawl_feed_items_published ON crawl_feed_items (source, published_at DESC);

-- What the last fetch of a feed said, for conditional requests. Two sources of one feed do not share what they have seen.
CREATE TABLE crawl_feed_state (
  source text NOT NULL,
  url text NOT NULL,
  etag text,
  last_modified text,
  last_status integer,
  fetched_at timestamptz,
  PRIMARY KEY (source, url)
);
