-- name: RunStreaks :many
-- Of each source, from its newest run backwards: how many failed before the first that did not, what the newest was and said, and whether one
-- is open. Runs that were started before its time, those of a backfill, and those that were neither a success nor a failure do not count.
-- A run that was interrupted counts where its error begins with one of the texts.
SELECT
  c.code::text AS code, v.failures::integer AS failures, v.newest::timestamptz AS newest,
  coalesce(v.newest_failed, false)::boolean AS newest_failed, coalesce(v.newest_error, '')::text AS newest_error, o.open::boolean AS open
FROM (SELECT
  unnest(@codes::text[]) AS code, unnest(@sinces::timestamptz[]) AS since, unnest(@most::integer[]) AS most
) AS c
CROSS JOIN LATERAL (
  SELECT
    count(*) FILTER (WHERE y.only_failed) AS failures, max(y.started_at) AS newest,
    (array_agg(y.failed ORDER BY y.started_at DESC, y.id DESC))[1] AS newest_failed,
    (array_agg(y.error ORDER BY y.started_at DESC, y.id DESC))[1] AS newest_error
  FROM (
    SELECT x.*, bool_and(x.failed) OVER (ORDER BY x.started_at DESC, x.id DESC) AS only_failed
    FROM (
      SELECT r.id, r.started_at::timestamptz AS started_at, coalesce(r.error::text, '') AS error, r.status::text <> ALL (@succeeded::text[]) AS failed
      FROM crawl_runs r
      WHERE r.source_code::text = c.code AND r.trigger::text <> 'backfill' AND r.started_at > c.since
        AND (r.status::text = ANY (@succeeded::text[]) OR r.status::text = ANY (@failed::text[])
          OR r.status::text = 'interrupted' AND EXISTS (SELECT FROM unnest(@crashes::text[]) AS p WHERE starts_with(r.error::text, p)))
      ORDER BY r.started_at DESC, r.id DESC LIMIT c.most
    ) AS x
  ) AS y
) AS v
CROSS JOIN LATERAL (
  SELECT EXISTS (
    SELECT FROM crawl_runs r
    WHERE r.source_code::text = c.code AND r.status::text = 'running' AND r.trigger::text <> 'backfill' AND r.started_at > c.since
  ) AS open
) AS o;
