-- name: TryReadSources :exec
SELECT s.code, s.collector, s.adapter, s.enabled, s.interval_seconds, s.backfill_hours, s.history_target, s.history_position,
  s.history_done, s.consecutive_failures, s.paused_until FROM sources s LIMIT 1;

-- name: TryUpdateSources :exec
UPDATE sources SET paused_until = paused_until, consecutive_failures = consecutive_failures WHERE false;

-- name: TryReadRuns :exec
SELECT r.id, r.source_code, r.status, r.trigger, r.started_at, r.finished_at, r.error FROM crawl_runs r LIMIT 1;

-- name: TryUpdateRuns :exec
UPDATE crawl_runs SET status = 'interrupted', finished_at = now(), error = '' WHERE false;

-- name: TryReadLogs :exec
SELECT l.id, l.source_code, l.run_id, l.level, l.message, l.created_at FROM crawl_logs l LIMIT 1;

-- name: TryReadOptions :exec
SELECT o.code, o.wanted FROM crawl_source_options o LIMIT 1;

-- name: TryInsertOptions :exec
INSERT INTO crawl_source_options (code) VALUES (gen_random_uuid()::text);

-- name: TryUpdateOptions :exec
UPDATE crawl_source_options SET wanted = wanted WHERE false;

-- name: TryDeleteOptions :exec
DELETE FROM crawl_source_options WHERE false;

-- name: TryReadProcesses :exec
SELECT p.id, p.source FROM crawl_processes p LIMIT 1;

-- name: TryInsertProcesses :exec
INSERT INTO crawl_processes (id, source, kind, manager, host, boot_id, command, status, queued_at)
VALUES (gen_random_uuid(), '', 'check', '', '', '', '[]', 'exited', now());

-- name: TryUpdateProcesses :exec
UPDATE crawl_processes SET status = status WHERE false;

-- name: TryDeleteProcesses :exec
DELETE FROM crawl_processes WHERE false;

-- name: TryReadLeaks :exec
SELECT l.at, l.manager, l.kind, l.found, l.removed FROM crawl_leaks l LIMIT 1;

-- name: TryInsertLeaks :exec
INSERT INTO crawl_leaks (at, manager, kind, found, removed) VALUES (now(), gen_random_uuid()::text, '', 0, 0);

-- name: TryDeleteLeaks :exec
DELETE FROM crawl_leaks WHERE false;

-- name: TryReadDeleted :exec
SELECT d.code, d.at FROM crawl_deleted_sources d LIMIT 1;

-- name: TryInsertDeleted :exec
INSERT INTO crawl_deleted_sources (code, at) VALUES (gen_random_uuid()::text, now());

-- name: TryUpdateDeleted :exec
UPDATE crawl_deleted_sources SET at = at WHERE false;

-- name: TryDeleteDeleted :exec
DELETE FROM crawl_deleted_sources WHERE false;

-- name: TryReadFacts :exec
SELECT f.run_id, f.tick_id, f.process_id, f.items, f.pages FROM crawl_run_facts f LIMIT 1;

-- name: TryDeleteRuns :exec
DELETE FROM crawl_runs WHERE false;

-- name: TryDeleteLogs :exec
DELETE FROM crawl_logs WHERE false;

-- name: TryDeleteFacts :exec
DELETE FROM crawl_run_facts WHERE false;
