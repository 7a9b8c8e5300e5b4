-- name: NoteDeleted :exec
-- Of the newest deletion: what was left before an earlier one may have been looked at.
INSERT INTO crawl_deleted_sources AS d (code, at)
SELECT n.code, max(n.at) FROM (SELECT unnest(@codes::text[]) AS code, unnest(@ats::timestamptz[]) AS at) n GROUP BY n.code
ON CONFLICT (code) DO UPDATE SET at = greatest(d.at, excluded.at);

-- name: NoteReturned :exec
DELETE FROM crawl_deleted_sources WHERE code = ANY(@codes::text[]);

-- name: DeletedSources :many
-- Not those that are there again, of whatever collector.
SELECT d.code, d.at FROM crawl_deleted_sources d
WHERE d.at < @before::timestamptz AND NOT EXISTS (SELECT 1 FROM sources s WHERE s.code::text = d.code)
ORDER BY d.at, d.code;

-- name: ForeignSources :many
-- Which of these another collector has.
SELECT DISTINCT s.code::text AS code FROM sources s
WHERE s.code::text = ANY(@codes::text[]) AND s.collector::text IS DISTINCT FROM @collector::text;

-- name: AddLeaks :exec
INSERT INTO crawl_leaks (at, manager, kind, found, removed)
SELECT @at::timestamptz, @manager::text, n.kind, n.found, n.removed
FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@founds::bigint[]) AS found, unnest(@removeds::bigint[]) AS removed) n
ON CONFLICT (manager, at, kind) DO NOTHING;

-- name: LastLeaks :many
-- What the last look of this manager found.
SELECT l.kind, l.found, l.removed, l.at FROM crawl_leaks l
WHERE l.manager = @manager::text AND l.at = (SELECT max(o.at) FROM crawl_leaks o WHERE o.manager = @manager::text)
ORDER BY l.kind;

-- name: PruneLeaks :exec
DELETE FROM crawl_leaks WHERE at < @before::timestamptz;

-- name: CountOldProcesses :one
SELECT count(*) FROM (
  SELECT 1 FROM crawl_processes o
  WHERE o.status = 'exited' AND NOT o.final_owed AND o.ended_at < @before::timestamptz
    AND o.source NOT IN (SELECT s.code::text FROM sources s WHERE s.code IS NOT NULL AND s.collector::text <> @collector::text)
  LIMIT @max_rows::bigint) old;

-- name: CountOldRuns :one
SELECT count(*) FROM (
  SELECT 1 FROM crawl_runs o
  WHERE o.status::text <> 'running' AND o.started_at < @before::timestamptz AND (o.finished_at IS NULL OR o.finished_at < @before::timestamptz)
    AND coalesce(o.source_code::text, '') NOT IN (SELECT s.code::text FROM sources s WHERE s.code IS NOT NULL AND s.collector::text <> @collector::text)
  LIMIT @max_rows::bigint) old;

-- name: CountOldLogs :one
SELECT count(*) FROM (
  SELECT 1 FROM crawl_logs o
  WHERE o.created_at < @before::timestamptz
    AND coalesce(o.source_code::text, '') NOT IN (SELECT s.code::text FROM sources s WHERE s.code IS NOT NULL AND s.collector::text <> @collector::text)
  LIMIT @max_rows::bigint) old;
