-- +goose Up

-- What a process did, and had printed, when it was found not to be well, before it was ended for that.
ALTER TABLE crawl_processes ADD COLUMN evidence text;  -- joined by newlines
