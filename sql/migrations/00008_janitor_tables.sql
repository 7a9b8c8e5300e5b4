-- What was left behind, and of whom.

-- +goose Up

-- What each look of the janitor found, a row a kind. The trend tells whether something leaks.
CREATE TABLE crawl_leaks (
  at timestamptz NOT NULL,
  manager text NOT NULL,
  kind text NOT NULL,
  found bigint NOT NULL,
  removed bigint NOT NULL,
  PRIMARY KEY (manager, at, kind)
);

-- Sources that a manager saw deleted, and of which something may be left. One that comes back is taken off.
CREATE TABLE crawl_deleted_sources (
  code text PRIMARY KEY,
  at timestamptz NOT NULL
);
