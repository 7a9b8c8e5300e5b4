-- The tables that are shared with crawlers and user interfaces, in the shape that the old manager had.
-- Where one exists, as a table or as a view, it is left exactly as it is: to_regclass takes no lock,
-- so a long transaction on these tables neither holds this up nor queues behind it.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
  IF to_regclass('sources') IS NULL THEN
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
  END IF;

  IF to_regclass('crawl_runs') IS NULL THEN
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
  END IF;

  IF to_regclass('crawl_logs') IS NULL THEN
    CREATE TABLE crawl_logs (
      id bigserial PRIMARY KEY,
      source_code varchar,
      run_id bigint,
      level varchar,
      message varchar,
      created_at timestamptz DEFAULT now()
    );
  END IF;
END
$$;
-- +goose StatementEnd
