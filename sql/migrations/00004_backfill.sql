-- When and where a history was asked for, so that its end can be foretold.

-- +goose Up
ALTER TABLE crawl_source_options
  ADD COLUMN backfill_started_at timestamptz,
  ADD COLUMN backfill_target text, -- history_target as it was then: another one in sources was set by somebody else
  ADD COLUMN backfill_from text;   -- history_position then; null = none yet
