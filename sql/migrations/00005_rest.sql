-- Whose a pause is, and where a source stands that the manager lets rest.

-- +goose Up
ALTER TABLE crawl_source_options
  ADD COLUMN paused_until timestamptz, -- the pause that pause_reason and paused_by speak of: another one in sources is somebody else's
  ADD COLUMN rest_level integer,       -- how many pauses in a row the manager made by itself; null = none
  ADD COLUMN rest_since timestamptz;   -- runs that were started before count no more
