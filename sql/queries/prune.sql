-- Rows past their age. A row of a source that another collector has is left to the manager of that one. Ids are only compared with
-- themselves, so they may be of any type; ctid would be faster, but a view has none. The conditions stand twice, for a row that
-- changes in between, and for ids that are not unique.

-- name: PruneProcesses :execrows
WITH theirs AS (SELECT s.code::text AS code FROM sources s WHERE s.code IS NOT NULL AND s.collector::text <> @collector::text)
DELETE FROM crawl_processes p WHERE p.status = 'exited' AND NOT p.final_owed AND p.ended_at < @before::timestamptz AND p.id IN (
  SELECT o.id FROM crawl_processes o
  WHERE o.status = 'exited' AND NOT o.final_owed AND o.ended_at < @before::timestamptz AND o.source NOT IN (SELECT t.code FROM theirs t)
  LIMIT @max_rows::bigint);

-- name: PruneRuns :one
WITH theirs AS (SELECT s.code::text AS code FROM sources s WHERE s.code IS NOT NULL AND s.collector::text <> @collector::text),
gone AS (
  DELETE FROM crawl_runs r
  WHERE r.status::text <> 'running' AND r.started_at < @before::timestamptz AND (r.finished_at IS NULL OR r.finished_at < @before::timestamptz)
    AND r.id IN (
      SELECT o.id FROM crawl_runs o
      WHERE o.status::text <> 'running' AND o.started_at < @before::timestamptz AND (o.finished_at IS NULL OR o.finished_at < @before::timestamptz)
        AND coalesce(o.source_code::text, '') NOT IN (SELECT t.code FROM theirs t)
      LIMIT @max_rows::bigint)
  RETURNING r.id::text AS id),
facts AS (DELETE FROM crawl_run_facts f WHERE f.run_id IN (SELECT g.id FROM gone g))
SELECT count(*) FROM gone;

-- name: PruneLogs :execrows
WITH theirs AS (SELECT s.code::text AS code FROM sources s WHERE s.code IS NOT NULL AND s.collector::text <> @collector::text)
DELETE FROM crawl_logs l WHERE l.created_at < @before::timestamptz AND l.id IN (
  SELECT o.id FROM crawl_logs o
  WHERE o.created_at < @before::timestamptz AND coalesce(o.source_code::text, '') NOT IN (SELECT t.code FROM theirs t)
  LIMIT @max_rows::bigint);
