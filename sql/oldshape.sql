-- The three tables that are shared with crawlers and user interfaces, as the old manager's database has them.
-- sqlc reads this file as the schema of the queries, tests create "a database that was there before" from it.
-- migrations/00001_shared_tables.sql creates the same where they do not exist; a test compares the two.
CREATE TABLE sources (
  code varchar PRIMARY KEY,
  collector varchar,
  adapter varchar,
  enabled boolean,
  interval_seconds integer,
  backfill_hours integer,
  history_target timestamptz,
  history_position timestamptz,
  history_done boolean,
  consecutive_failures integer,
  paused_until timestamptz
);

CREATE TABLE crawl_runs (
  id bigserial PRIMARY KEY,
  source_code varchar,
  status varchar,
  trigger varchar,
  started_at timestamptz DEFAULT now(),
  finished_at timestamptz,
  error varchar
);

CREATE INDEX ix_crawl_runs_source_code ON crawl_runs (source_code);

CREATE TABLE crawl_logs (
  id bigserial PRIMARY KEY,
  source_code varchar,
  run_id bigint,
  level varchar,
  message varchar,
  created_at timestamptz DEFAULT now()
);
