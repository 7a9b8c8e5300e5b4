-- +goose Up

-- The final hooks of a process are owed from before its start until they have run. Whoever is the active manager pays what an
-- earlier one left.
ALTER TABLE crawl_processes ADD COLUMN final_owed boolean NOT NULL DEFAULT false;
CREATE INDEX ix_crawl_processes_owed ON crawl_processes (id) WHERE final_owed;
