"""The spiders as processes, against a real Redis, a real Postgres and a small site: what a manager would see of them."""

import json
import os
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

from tests.servers import Postgres, Redis, Site, eventually, spawn

PROJECT = Path(__file__).parents[1]
PROCESS_ID = "0197f000-0000-7000-8000-000000000001"


class Spider:
    """A spider as the manager starts it."""

    def __init__(self, source, *arguments, **environment):
        self.source = source
        self.log = tempfile.NamedTemporaryFile()
        env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "CRAWLKEEPER_SOURCE": source, "CRAWLKEEPER_PROCESS_ID": PROCESS_ID,
                            "CRAWLKEEPER_START_URLS_KEY": f"crawler:{source}:start_urls"} | environment
        self.process = spawn([sys.executable, "-m", "scrapy", "crawl", *arguments], cwd=PROJECT, env=env, stderr=self.log)

    def stop(self):
        """SIGTERM. Returns the exit code and how long it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30), time.monotonic() - began

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def said(self):
        return Path(self.log.name).read_text()


class Crawl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name, server in {"redis": Redis, "postgres": Postgres, "site": Site}.items():
            setattr(cls, name, server())
            cls.addClassCleanup(getattr(cls, name).close)
        cls.urls = {"CRAWLKEEPER_REDIS_URL": cls.redis.url, "CRAWLKEEPER_POSTGRES_URL": cls.postgres.url}

    def spider(self, source, *arguments):
        self.postgres.rows("INSERT INTO sources (code, collector) VALUES (%s, 'news')", source)
        spider = Spider(source, *(arguments or [source]), **self.urls)
        self.addCleanup(spider.close)
        return spider

    def tick(self, spider, url, **fields):
        fields = {"trigger": "schedule", "tick_id": f"tick-{len(self.runs(spider))}", "url": self.site.url + url} | fields
        self.redis.client.lpush(f"crawler:{spider.source}:start_urls", json.dumps(fields))

    def runs(self, spider, status=""):
        return self.postgres.rows("""
            SELECT r.status, r.trigger, r.error, r.finished_at IS NOT NULL, f.tick_id, f.process_id, f.items::int, f.pages::int
            FROM crawl_runs r JOIN crawl_run_facts f ON f.run_id = r.id::text
            WHERE r.source_code = %s AND r.status LIKE %s || '%%' ORDER BY r.id""", spider.source, status)

    def runs_succeed(self, spider, count):
        eventually(f"{count} runs succeeded", lambda: len(self.runs(spider, "succeeded")) == count)

    def items(self, spider):
        return self.postgres.rows("SELECT guid FROM crawl_feed_items WHERE source = %s ORDER BY guid", spider.source)

    def source(self, spider, column):
        return self.postgres.rows(f"SELECT {column} FROM sources WHERE code = %s", spider.source)[0][0]

    def test_runs(self):
        spider = self.spider("articles")
        self.tick(spider, "/", trigger="startup")
        self.runs_succeed(spider, 1)
        self.assertEqual(self.runs(spider), [("succeeded", "startup", None, True, "tick-0", PROCESS_ID, 5, 6)])
        self.assertEqual(len(self.items(spider)), 5)
        self.assertEqual(self.source(spider, "consecutive_failures"), 0)

        self.tick(spider, "/missing")
        failed = eventually("a run that failed", lambda: self.runs(spider, "failed"))[0]
        self.assertIn("404", failed[2])
        self.assertEqual(self.source(spider, "consecutive_failures"), 1)

        self.redis.client.lpush("crawler:articles:start_urls", "no tick")
        self.tick(spider, "/")
        self.runs_succeed(spider, 2)
        self.assertEqual(self.source(spider, "consecutive_failures"), 0)
        self.assertEqual(self.runs(spider)[-1][6:], (0, 1), "what was stored before is not fetched again")

        beat = eventually("a heartbeat that counted", lambda: self.counted("crawler:articles:heartbeat"))
        self.assertEqual(beat["items"], "5")
        self.assertTrue(0 < self.redis.client.ttl("crawler:articles:heartbeat") <= 30)

        code, took = spider.stop()
        self.assertEqual(code, 0)
        self.assertLess(took, 5, "idle, so it ends at once")
        self.assertIn("Spider closed (shutdown)", spider.said())

    def counted(self, key):
        beat = self.redis.client.hgetall(key)
        return beat if beat.get("pages") == "8" else None  # 6, the one that is missing, 1

    def test_stop_in_a_run(self):
        spider = self.spider("busy", "articles")
        self.tick(spider, "/slow?seconds=2")
        eventually("the slow page is asked for", lambda: "/slow" in self.site.asked)
        code, took = spider.stop()
        self.assertEqual(code, 0)
        self.assertGreater(took, 0.5, "the page in flight is waited for")
        self.assertEqual(self.runs(spider), [("running", "schedule", None, False, "tick-0", PROCESS_ID, 0, 1)],
                         "marking it is the manager's")

    def test_postgres_away(self):
        spider = self.spider("away", "custom_rss", "-a", "source_code=away")
        self.postgres.stop()
        try:
            self.redis.client.lpush("crawler:away:start_urls", json.dumps({"trigger": "startup", "url": self.site.url + "/feed"}))
            eventually("it says so", lambda: "Postgres is away" in spider.said())
        finally:
            self.postgres.start()
        self.runs_succeed(spider, 1)
        self.assertEqual(len(self.items(spider)), 3)

    def test_history(self):
        spider = self.spider("feed", "custom_rss", "-a", "source_code=feed")
        history = {"target": "2026-01-02", "position": None}
        for position, guids, done in [("2026-01-03 12:00:00", "345", None), ("2026-01-02 12:00:00", "2345", True)]:
            ended = len(self.runs(spider)) + 1
            self.tick(spider, "/feed", backfill_hours=1, history=history)
            self.runs_succeed(spider, ended)
            self.assertEqual(self.items(spider), [(f"day-{day}",) for day in guids])
            reached = self.source(spider, "history_position AT TIME ZONE 'UTC'")
            self.assertEqual((str(reached), self.source(spider, "history_done")), (position, done))
            history["position"] = reached.isoformat() + "+00:00"

    def test_stock(self):
        tick = {"url": self.site.url + "/", "meta": {"trigger": "startup", "backfill_hours": 24, "tick_id": "t"}}
        self.redis.client.lpush("crawler:headlines:start_urls", json.dumps(tick))
        spider = self.spider("headlines")
        eventually("the articles are stored", lambda: len(self.items(spider)) == 5)
        self.assertEqual(self.runs(spider), [], "it knows nothing of runs")
        code, took = spider.stop()
        self.assertEqual(code, 0)
        self.assertLess(took, 5)


if __name__ == "__main__":
    unittest.main()
