-- name: Sources :many
-- The order is total over what the manager acts on, so that of several rows with one code the same is always first.
-- Types of a user's own table may differ, so all is read through a cast; an empty text is null.
SELECT
  s.code::text AS code,
  coalesce(s.adapter::text, '')::text AS adapter,
  coalesce(s.enabled, false)::boolean AS enabled,
  coalesce(s.interval_seconds::bigint::text, '')::text AS interval_seconds,
  coalesce(s.backfill_hours::bigint::text, '')::text AS backfill_hours,
  coalesce(s.history_target::text, '')::text AS history_target,
  pg_typeof(s.history_target)::text AS history_target_type,
  coalesce(s.history_position::text, '')::text AS history_position,
  pg_typeof(s.history_position)::text AS history_position_type,
  coalesce(s.history_done, false)::boolean AS history_done,
  s.paused_until::timestamptz AS paused_until,
  coalesce(s.consecutive_failures, 0)::bigint AS consecutive_failures,
  coalesce(o.schedule, '')::text AS schedule,
  coalesce(o.timezone, '')::text AS timezone,
  coalesce(o.jitter_seconds, 0)::double precision AS jitter_seconds,
  coalesce(o.payload::text, '')::text AS payload,
  coalesce(o.pause_reason, '')::text AS pause_reason,
  coalesce(o.paused_by, '')::text AS paused_by,
  coalesce(o.wanted, '')::text AS wanted,
  o.paused_until::timestamptz AS own_pause,
  coalesce(o.rest_level, 0)::integer AS rest_level,
  o.rest_since::timestamptz AS rest_since
FROM sources s LEFT JOIN crawl_source_options o ON o.code = s.code::text
WHERE s.collector::text = @collector::text AND s.code IS NOT NULL
ORDER BY s.code::text COLLATE "C", s.adapter, s.enabled, s.interval_seconds, s.backfill_hours, s.history_target, s.history_done,
  s.paused_until, s.history_position, s.consecutive_failures;

-- name: Histories :many
SELECT
  s.code::text AS code,
  coalesce(s.history_target::text, '')::text AS history_target,
  pg_typeof(s.history_target)::text AS history_target_type,
  coalesce(s.history_position::text, '')::text AS history_position,
  pg_typeof(s.history_position)::text AS history_position_type,
  coalesce(s.history_done, false)::boolean AS history_done
FROM sources s
WHERE s.code::text = ANY(@codes::text[])
ORDER BY s.code::text COLLATE "C", s.adapter, s.enabled, s.interval_seconds, s.backfill_hours, s.history_target, s.history_done,
  s.paused_until, s.history_position, s.consecutive_failures;

-- name: Collectors :many
-- Which of these codes exist, and to which collector they belong.
SELECT DISTINCT s.code::text AS code, coalesce(s.collector::text, '')::text AS collector
FROM sources s WHERE s.code::text = ANY(@codes::text[]);

-- name: DeleteSources :many
DELETE FROM sources s WHERE s.code::text = ANY(@codes::text[]) AND s.collector::text = @collector::text
RETURNING s.code::text AS code;

-- name: DeleteSourceOptions :exec
DELETE FROM crawl_source_options WHERE code = ANY(@codes::text[]);

-- name: Backfill :many
SELECT
  o.backfill_started_at::timestamptz AS started_at,
  coalesce(o.backfill_target, '')::text AS target,
  coalesce(o.backfill_from, '')::text AS position
FROM crawl_source_options o WHERE o.code = @code::text;
