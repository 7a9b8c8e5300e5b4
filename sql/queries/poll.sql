-- name: Poll :one
-- The digest is computed only where the snapshot or the server differs from what the caller knows.
-- It covers what the manager acts on; history_position and consecutive_failures change with every run
-- of a crawler and are left out on purpose.
SELECT
  pg_current_snapshot()::text AS snapshot,
  pg_postmaster_start_time()::text AS server,
  pg_is_in_recovery()::boolean AS standby,
  EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = to_regclass('sources') AND c.relkind IN ('r', 'p'))::boolean AS plain_table,
  (CASE WHEN pg_current_snapshot()::text = @known_snapshot::text AND pg_postmaster_start_time()::text = @known_server::text
   THEN ''
   ELSE (
    SELECT count(*)::text || ':' || coalesce(sum(hashtextextended(ROW(
        s.code, s.adapter, s.enabled, s.interval_seconds, s.backfill_hours, s.history_target, s.history_done, s.paused_until,
        o.schedule, o.timezone, o.jitter_seconds, o.payload, o.pause_reason, o.paused_by, o.wanted,
        o.paused_until, o.rest_level, o.rest_since
      )::text, 0)), 0)::text
    FROM sources s LEFT JOIN crawl_source_options o ON o.code = s.code::text
    WHERE s.collector::text = @collector::text)
   END)::text AS digest;
