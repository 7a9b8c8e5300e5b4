-- name: Server :one
SELECT
  current_setting('server_version_num')::integer AS version,
  current_setting('server_encoding')::text AS encoding,
  pg_is_in_recovery()::boolean AS standby,
  current_user::text AS role,
  coalesce(current_schema(), '')::text AS schema,
  (to_regclass('crawlkeeper_goose') IS NOT NULL)::boolean AS versioned;

-- name: Columns :many
-- The columns of the shared tables: type, length limit (0 = none), whether they fill themselves, whether null is refused.
SELECT
  t.name::text AS relation, c.relkind::text AS kind, a.attname::text AS name, format_type(a.atttypid, NULL)::text AS type,
  (CASE WHEN a.atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND a.atttypmod > 4 THEN a.atttypmod - 4 ELSE 0 END)::integer AS max_length,
  (a.atthasdef OR a.attidentity <> '')::boolean AS filled,
  a.attnotnull::boolean AS not_null
FROM (VALUES ('sources'), ('crawl_runs'), ('crawl_logs')) AS t (name)
JOIN pg_catalog.pg_class c ON c.oid = to_regclass(t.name)
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY t.name, a.attnum;

-- name: DuplicateCodes :many
SELECT s.code::text AS code FROM sources s
WHERE s.collector::text = @collector::text AND s.code IS NOT NULL
GROUP BY s.code::text HAVING count(*) > 1 ORDER BY 1 LIMIT 100;

-- name: TryLog :one
-- Always in a transaction that is rolled back: does the table give the id by itself?
INSERT INTO crawl_logs (source_code, level, message, created_at)
VALUES (coalesce((SELECT s.code FROM sources s WHERE s.code IS NOT NULL LIMIT 1), ''), 'INFO', 'crawlkeeper looks how this table gives ids; this row is rolled back', now())
RETURNING coalesce(id::text, '')::text AS id;

-- name: Clock :one
SELECT clock_timestamp()::timestamptz AS now;

-- name: RunsIndexed :one
-- Whether the newest runs of a source can be found without reading them all; true too where crawl_runs is no table.
SELECT (c.relkind NOT IN ('r', 'p') OR EXISTS (
  SELECT FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] AND a.attname = 'source_code'
  JOIN pg_catalog.pg_attribute b ON b.attrelid = i.indrelid AND b.attnum = i.indkey[1] AND b.attname = 'started_at'
  WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
))::boolean AS indexed
FROM pg_catalog.pg_class c WHERE c.oid = to_regclass('crawl_runs');
