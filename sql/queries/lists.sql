-- name: Runs :many
-- Ids of the shared tables are read as text: they may be uuid or integer.
SELECT
  coalesce(r.id::text, '')::text AS id, coalesce(r.source_code::text, '')::text AS source, coalesce(r.status::text, '')::text AS status, coalesce(r.trigger::text, '')::text AS trigger,
  r.started_at::timestamptz AS started_at, r.finished_at::timestamptz AS finished_at, coalesce(r.error::text, '')::text AS error,
  coalesce(f.tick_id, '')::text AS tick_id, coalesce(f.process_id, '')::text AS process_id, f.items, f.pages
FROM crawl_runs r LEFT JOIN crawl_run_facts f ON f.run_id = r.id::text
WHERE (@source::text = '' OR r.source_code::text = @source::text)
  AND (@status::text = '' OR r.status::text = @status::text)
  AND (sqlc.narg(since)::timestamptz IS NULL OR r.started_at >= sqlc.narg(since)::timestamptz)
ORDER BY r.started_at DESC NULLS LAST, r.id DESC
LIMIT @max_rows::bigint;

-- name: ProcessesByID :many
SELECT p.*
FROM crawl_processes p
WHERE p.id = ANY ((@ids::text[])::uuid[]);

-- name: Processes :many
SELECT p.*
FROM crawl_processes p
WHERE (@source::text = '' OR p.source = @source::text)
  AND (@id::text = '' OR p.id::text = @id::text OR p.parent::text = @id::text)
  AND (@host::text = '' OR p.host = @host::text)
  AND (NOT @open::boolean OR p.status <> 'exited')
ORDER BY p.id DESC
LIMIT @max_rows::bigint;

-- name: OwedFinals :many
-- The oldest first, but for those of one manager from a time on. `gone` says that no collector has this source any more.
SELECT sqlc.embed(p), (NOT EXISTS (SELECT 1 FROM sources s WHERE s.code::text = p.source))::boolean AS gone
FROM crawl_processes p
WHERE p.final_owed
  AND NOT (p.queued_at >= @since::timestamptz AND p.manager = @manager::text AND p.host = @host::text AND p.boot_id = @boot_id::text)
  AND (@after::text = '' OR p.id > nullif(@after::text, '')::uuid)
ORDER BY p.id
LIMIT @max_rows::bigint;

-- name: Logs :many
-- The newest rows, newest first. Rows without a time come last.
SELECT
  coalesce(l.id::text, '')::text AS id, coalesce(l.source_code::text, '')::text AS source, coalesce(l.run_id::text, '')::text AS run_id,
  coalesce(l.level::text, '')::text AS level, coalesce(l.message::text, '')::text AS message, l.created_at::timestamptz AS created_at
FROM crawl_logs l
WHERE (@source::text = '' OR l.source_code::text = @source::text)
  AND (cardinality(@levels::text[]) = 0 OR l.level::text = ANY(@levels::text[]))
  AND (sqlc.narg(since)::timestamptz IS NULL OR l.created_at >= sqlc.narg(since)::timestamptz)
ORDER BY l.created_at DESC NULLS LAST, l.id DESC
LIMIT @max_rows::bigint;

-- name: OpenRuns :many
-- When the oldest run that is open was begun, of each of these sources that has one. Those of a backfill belong to others.
SELECT r.source_code::text AS source, min(r.started_at)::timestamptz AS started_at
FROM crawl_runs r
WHERE r.source_code::text = ANY(@sources::text[]) AND r.status::text = 'running' AND r.trigger::text <> 'backfill' AND r.started_at IS NOT NULL
GROUP BY r.source_code;
