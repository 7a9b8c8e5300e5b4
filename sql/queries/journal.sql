-- name: LimitLockWait :exec
-- Local to the transaction; a batch is one.
SELECT set_config('lock_timeout', @milliseconds::text, true);

-- name: UpsertProcesses :exec
-- Columns come as arrays of one length, here and below, so that a group of any size is one statement.
-- An empty text stands for null, as does an exit code of -1. A row that is exited stays so.
INSERT INTO crawl_processes AS p (
  id, source, kind, parent, manager, host, boot_id, pid, start_time, fingerprint, command, binary_path, dir, status,
  queued_at, started_at, ended_at, exit_code, signal, cause, asked_by, last_lines, peak_memory, cpu_seconds, swept, evidence, final_owed)
SELECT
  n.id::uuid, n.source, n.kind, nullif(n.parent, '')::uuid, n.manager, n.host, n.boot_id, nullif(n.pid, 0), nullif(n.start_time, 0),
  nullif(n.fingerprint, 0), n.command::jsonb, nullif(n.binary_path, ''), nullif(n.dir, ''), n.status,
  n.queued_at, n.started_at, n.ended_at, nullif(n.exit_code, -1), nullif(n.signal, ''), nullif(n.cause, ''), nullif(n.asked_by, ''),
  nullif(n.last_lines, ''), nullif(n.peak_memory, 0), n.cpu_seconds, n.swept, nullif(n.evidence, ''), n.final_owed
FROM (SELECT
  unnest(@ids::text[]) AS id, unnest(@sources::text[]) AS source, unnest(@kinds::text[]) AS kind, unnest(@parents::text[]) AS parent,
  unnest(@managers::text[]) AS manager, unnest(@hosts::text[]) AS host, unnest(@boot_ids::text[]) AS boot_id, unnest(@pids::integer[]) AS pid,
  unnest(@start_times::bigint[]) AS start_time, unnest(@fingerprints::bigint[]) AS fingerprint, unnest(@commands::text[]) AS command,
  unnest(@binary_paths::text[]) AS binary_path, unnest(@dirs::text[]) AS dir, unnest(@statuses::text[]) AS status,
  unnest(@queued_ats::timestamptz[]) AS queued_at, unnest(@started_ats::timestamptz[]) AS started_at, unnest(@ended_ats::timestamptz[]) AS ended_at,
  unnest(@exit_codes::integer[]) AS exit_code, unnest(@signals::text[]) AS signal, unnest(@causes::text[]) AS cause,
  unnest(@asked_bys::text[]) AS asked_by, unnest(@last_lines::text[]) AS last_lines, unnest(@peak_memories::bigint[]) AS peak_memory,
  unnest(@cpu_seconds::double precision[]) AS cpu_seconds, unnest(@swepts::integer[]) AS swept, unnest(@evidences::text[]) AS evidence, unnest(@final_oweds::boolean[]) AS final_owed
) AS n
ON CONFLICT (id) DO UPDATE SET
  source = excluded.source, kind = excluded.kind, parent = excluded.parent, manager = excluded.manager, host = excluded.host,
  boot_id = excluded.boot_id, pid = excluded.pid, start_time = excluded.start_time, fingerprint = excluded.fingerprint,
  command = excluded.command, binary_path = excluded.binary_path, dir = excluded.dir, status = excluded.status,
  queued_at = excluded.queued_at, started_at = excluded.started_at, ended_at = excluded.ended_at, exit_code = excluded.exit_code,
  signal = excluded.signal, cause = excluded.cause, asked_by = excluded.asked_by, last_lines = excluded.last_lines,
  peak_memory = excluded.peak_memory, cpu_seconds = excluded.cpu_seconds, swept = excluded.swept, evidence = excluded.evidence,
  final_owed = excluded.final_owed
WHERE p.status <> 'exited' OR excluded.status = 'exited';

-- name: MarkRuns :exec
-- The marks of a source split time at their ends: a run belongs to the first end after its start.
-- open_starts takes runs without a start time too.
UPDATE crawl_runs r SET status = 'interrupted', finished_at = m.finished_at, error = m.error
FROM (SELECT
  unnest(@sources::text[]) AS source, unnest(@afters::timestamptz[]) AS after, unnest(@endeds::timestamptz[]) AS ended,
  unnest(@finished_ats::timestamptz[]) AS finished_at, unnest(@errors::text[]) AS error, unnest(@open_starts::boolean[]) AS open_start
) AS m
WHERE r.source_code::text = m.source AND r.status::text = 'running' AND r.trigger::text <> 'backfill'
  AND ((r.started_at < m.ended AND r.started_at >= m.after) OR (m.open_start AND r.started_at IS NULL))
RETURNING r.source_code::text AS source;

-- name: ChangeSources :exec
UPDATE sources s SET
  paused_until = CASE WHEN c.set_paused_until THEN c.paused_until ELSE s.paused_until END,
  consecutive_failures = CASE WHEN c.reset_failures THEN 0 ELSE s.consecutive_failures END
FROM (SELECT
  unnest(@codes::text[]) AS code, unnest(@set_paused_untils::boolean[]) AS set_paused_until,
  unnest(@paused_untils::timestamptz[]) AS paused_until, unnest(@reset_failures::boolean[]) AS reset_failures
) AS c
WHERE s.code::text = c.code AND (
  (c.set_paused_until AND s.paused_until IS DISTINCT FROM c.paused_until)
  OR (c.reset_failures AND s.consecutive_failures IS DISTINCT FROM 0));

-- name: AddOptions :exec
-- A source that has no row of options gets one only where there is something to keep in it.
INSERT INTO crawl_source_options AS o (code, pause_reason, paused_by, wanted, paused_until, rest_level, rest_since)
SELECT c.code, nullif(c.pause_reason, ''), nullif(c.paused_by, ''), nullif(c.wanted, ''), c.paused_until, nullif(c.rest_level, 0), c.rest_since
FROM (SELECT
  unnest(@codes::text[]) AS code, unnest(@pause_reasons::text[]) AS pause_reason,
  unnest(@paused_bys::text[]) AS paused_by, unnest(@wanteds::text[]) AS wanted,
  unnest(@paused_untils::timestamptz[]) AS paused_until, unnest(@rest_levels::integer[]) AS rest_level, unnest(@rest_sinces::timestamptz[]) AS rest_since
) AS c
WHERE c.pause_reason <> '' OR c.paused_by <> '' OR c.wanted <> '' OR c.rest_since IS NOT NULL
ON CONFLICT (code) DO NOTHING;

-- name: UpdateOptions :exec
UPDATE crawl_source_options o SET
  pause_reason = CASE WHEN c.set_pause_reason THEN nullif(c.pause_reason, '') ELSE o.pause_reason END,
  paused_by = CASE WHEN c.set_paused_by THEN nullif(c.paused_by, '') ELSE o.paused_by END,
  wanted = CASE WHEN c.set_wanted THEN nullif(c.wanted, '') ELSE o.wanted END,
  paused_until = CASE WHEN c.set_paused_until THEN c.paused_until ELSE o.paused_until END,
  rest_level = CASE WHEN c.set_rest THEN nullif(c.rest_level, 0) ELSE o.rest_level END,
  rest_since = CASE WHEN c.set_rest THEN c.rest_since ELSE o.rest_since END
FROM (SELECT
  unnest(@codes::text[]) AS code,
  unnest(@set_pause_reasons::boolean[]) AS set_pause_reason, unnest(@pause_reasons::text[]) AS pause_reason,
  unnest(@set_paused_bys::boolean[]) AS set_paused_by, unnest(@paused_bys::text[]) AS paused_by,
  unnest(@set_wanteds::boolean[]) AS set_wanted, unnest(@wanteds::text[]) AS wanted,
  unnest(@set_paused_untils::boolean[]) AS set_paused_until, unnest(@paused_untils::timestamptz[]) AS paused_until,
  unnest(@set_rests::boolean[]) AS set_rest, unnest(@rest_levels::integer[]) AS rest_level, unnest(@rest_sinces::timestamptz[]) AS rest_since
) AS c
WHERE o.code = c.code;

-- name: InsertLogs :exec
INSERT INTO crawl_logs (source_code, level, message, created_at)
SELECT unnest(@sources::text[]), unnest(@levels::text[]), unnest(@messages::text[]), unnest(@created_ats::timestamptz[]);

-- name: InsertLogsWithIDs :exec
-- For a table whose id is a uuid (or text) without a default.
INSERT INTO crawl_logs (id, source_code, level, message, created_at)
SELECT unnest(@ids::uuid[]), unnest(@sources::text[]), unnest(@levels::text[]), unnest(@messages::text[]), unnest(@created_ats::timestamptz[]);
