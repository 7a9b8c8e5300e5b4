-- The least that works: three users of Postgres. Run it as the owner of the tables, who also runs `crawlkeeper migrate`, after that.
-- Give the users passwords of your own (\password). `crawlkeeper doctor` tests what the manager may do.

CREATE ROLE manager LOGIN PASSWORD 'change-me-manager';
CREATE ROLE crawler LOGIN PASSWORD 'change-me-crawler';
CREATE ROLE ui LOGIN PASSWORD 'change-me-ui';

-- Nobody makes tables but the owner. That is the default from Postgres 15 on.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

-- The manager reads sources and keeps pauses and failures of them; it marks runs and writes down what it does.
GRANT SELECT, UPDATE (paused_until, consecutive_failures) ON sources TO manager;
GRANT SELECT, UPDATE (status, finished_at, error) ON crawl_runs TO manager;
GRANT SELECT, INSERT ON crawl_logs TO manager;
GRANT USAGE ON SEQUENCE crawl_logs_id_seq TO manager;
GRANT SELECT, INSERT, UPDATE, DELETE ON crawl_source_options, crawl_processes, crawl_deleted_sources TO manager;
GRANT SELECT, INSERT, DELETE ON crawl_leaks TO manager;
GRANT SELECT ON crawl_run_facts, crawlkeeper_goose TO manager;
-- With keep.runs: GRANT DELETE ON crawl_runs, crawl_run_facts TO manager;
-- With keep.logs: GRANT DELETE ON crawl_logs TO manager;

-- Crawlers keep their runs, what they crawled, and how far they are.
GRANT SELECT, UPDATE (consecutive_failures, history_position, history_done) ON sources TO crawler;
GRANT SELECT, INSERT, UPDATE ON crawl_runs, crawl_run_facts, crawl_feed_items, crawl_feed_state TO crawler;
GRANT INSERT ON crawl_logs TO crawler;
GRANT USAGE ON SEQUENCE crawl_runs_id_seq, crawl_logs_id_seq TO crawler;

-- The user interface, and `crawlkeeper sources`: edits sources, reads the rest. Its commands go through Redis.
GRANT SELECT, INSERT, UPDATE, DELETE ON sources, crawl_source_options TO ui;
GRANT SELECT ON crawl_runs, crawl_run_facts, crawl_logs, crawl_processes, crawl_leaks, crawl_feed_items, crawlkeeper_goose TO ui;
