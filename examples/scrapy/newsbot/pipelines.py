"""Where the articles go."""

import json
import os
from dataclasses import asdict
from datetime import UTC, datetime

from psycopg_pool import AsyncConnectionPool
from scrapy.exceptions import DropItem

INSERT = """
INSERT INTO crawl_feed_items (source, guid, url, title, summary, published_at, run_id)
VALUES (%(source)s, %(guid)s, %(url)s, %(title)s, %(summary)s, %(published)s, %(run)s)
ON CONFLICT (source, guid) DO NOTHING"""


class StoreItems:
    """Stores each article once in crawl_feed_items, or, without a database, as a line of JSON in items/CODE.jsonl.

    What was stored before is dropped, so that only new articles count. When storing fails Scrapy reports an item error,
    and the run fails.
    """

    def __init__(self, source, spider):
        self.source = source
        self.spider = spider
        self.pool = None
        if url := os.environ.get("CRAWLKEEPER_POSTGRES_URL"):
            # No connection while there is nothing to store, and a dead one is noticed before it is used.
            self.pool = AsyncConnectionPool(
                url, min_size=0, max_size=2, max_idle=10, timeout=10, open=False,
                kwargs={"autocommit": True}, check=AsyncConnectionPool.check_connection,
            )

    @classmethod
    def from_crawler(cls, crawler):
        return cls(os.environ.get("CRAWLKEEPER_SOURCE") or crawler.spider.name, crawler.spider)

    async def open_spider(self):
        if self.pool:
            await self.pool.open()

    async def close_spider(self):
        if self.pool:
            await self.pool.close()

    async def process_item(self, item):
        tick = getattr(self.spider, "tick", None)  # stock spiders have none
        row = asdict(item) | {"source": self.source, "run": tick and tick.run_id}
        if self.pool:
            async with self.pool.connection() as connection:
                stored = (await connection.execute(INSERT, row)).rowcount
            if not stored:
                raise DropItem("it was stored before", log_level="DEBUG")
        else:
            self.write_line(row | {"stored": datetime.now(UTC)})
        return item

    def write_line(self, row):
        """Appends to the file. It is opened each time, so that it may be moved away while the spider runs."""
        os.makedirs("items", exist_ok=True)
        with open(f"items/{self.source}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=str, ensure_ascii=False) + "\n")
