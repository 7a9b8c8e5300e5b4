-- Tables of our own. None has a foreign key to a shared table: a lock on our side must never be one on theirs,
-- and a source that is deleted there must not be held by a row here.

-- +goose Up

-- What the manager knows of a source beyond the shared columns. A missing row means: all null.
CREATE TABLE crawl_source_options (
  code text PRIMARY KEY,
  schedule text,                 -- a cron line; wins over the interval
  timezone text,                 -- of the cron line; null = UTC
  jitter_seconds double precision CHECK (jitter_seconds BETWEEN 0 AND 31622400),
  payload jsonb CHECK (jsonb_typeof(payload) = 'object'),  -- merged into the tick
  pause_reason text,
  paused_by text,
  wanted text CHECK (wanted IN ('up', 'stopped'))  -- null = up
);

-- One row for every process that was started; ids are UUIDv7, so they sort by time.
CREATE TABLE crawl_processes (
  id uuid PRIMARY KEY,
  source text NOT NULL,
  kind text NOT NULL,            -- crawler, hook, check
  parent uuid,                   -- of a hook or check: its crawler
  manager text NOT NULL,
  host text NOT NULL,
  boot_id text NOT NULL,
  pid integer,
  start_time bigint,             -- clock ticks after boot
  fingerprint bigint,            -- an unsigned 64-bit number, stored as signed
  command jsonb NOT NULL,        -- an array of strings, secrets masked
  binary_path text,
  dir text,
  status text NOT NULL CHECK (status IN ('queued', 'running', 'exited')),
  queued_at timestamptz NOT NULL,
  started_at timestamptz,
  ended_at timestamptz,
  exit_code integer,
  signal text,
  cause text,
  asked_by text,
  last_lines text,               -- joined by newlines
  peak_memory bigint,            -- bytes
  cpu_seconds double precision,
  swept integer                  -- processes that were left and had to be ended
);
CREATE INDEX ix_crawl_processes_source ON crawl_processes (source, id DESC);
CREATE INDEX ix_crawl_processes_open ON crawl_processes (host) WHERE status <> 'exited';
CREATE INDEX ix_crawl_processes_ended ON crawl_processes (ended_at);

-- Facts about a run that crawlers may write. run_id is the text of crawl_runs.id, whatever its type is.
CREATE TABLE crawl_run_facts (
  run_id text PRIMARY KEY,
  tick_id text,
  process_id text,
  items bigint,
  pages bigint
);
