"""Takes crawlkeeper's ticks for a Scrapy spider and keeps its runs in the table crawl_runs.

Copy this file into your project (it needs `redis` and `psycopg`), switch it on in settings.py,

    EXTENSIONS = {"crawlkeeper_runs.CrawlkeeperRuns": 100}

and give a spider one method, which turns a tick into the requests that begin a run:

    class News(scrapy.Spider):
        name = "news"
        tick = None  # the Tick of the run that is under way

        def tick_requests(self, tick):
            yield scrapy.Request("https://example.org/news")

        def parse(self, response): ...

A spider without that method is left alone. What happens then:

- The spider never ends by itself. While it is idle the list of ticks is looked at once a second.
- A tick opens a run: a row `running` in crawl_runs. The run is over when no request of it is left, and is `failed` when
  one of the tick's own requests failed, a callback or a pipeline raised, or an item could not be stored; else `succeeded`.
  It counts its pages and items in crawl_run_facts, and sources.consecutive_failures with every end.
- SIGTERM in a run: Scrapy finishes the pages in flight and drops the rest. The row stays `running` on purpose, as after
  a SIGKILL: the manager, which sees the process end, marks it `interrupted` with the reason.
- Redis or Postgres away: the spider stays up and tries again; a run is opened and closed once Postgres is back.
- Nothing blocks Scrapy: all of it runs on asyncio, which Scrapy's default reactor is. No connection to Postgres is held
  while the spider is idle, so that thousands of idle spiders cost it nothing.

The manager gives the environment: CRAWLKEEPER_SOURCE, CRAWLKEEPER_START_URLS_KEY, CRAWLKEEPER_PROCESS_ID, and, where the
adapter has `pass_urls: true`, CRAWLKEEPER_REDIS_URL and CRAWLKEEPER_POSTGRES_URL. Without a Postgres URL runs are only logged.
"""

import asyncio
import json
import logging
import os
from datetime import UTC, datetime, timedelta

import psycopg
import redis.asyncio
from scrapy import signals
from scrapy.exceptions import DontCloseSpider, NotConfigured
from scrapy.http.request import NO_CALLBACK

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # between two looks at the list of ticks
BEAT_SECONDS = 5.0  # between two heartbeats; the key expires after six of them
RETRY_SECONDS = 2.0  # after Postgres did not answer

# Where crawl_runs.id has no default in your database (a uuid that the application makes), make it here.
OPEN_RUN = """
WITH run AS (INSERT INTO crawl_runs (source_code, status, trigger, started_at)
             VALUES (%(source)s, 'running', %(trigger)s, %(now)s) RETURNING id)
INSERT INTO crawl_run_facts (run_id, tick_id, process_id, items, pages)
SELECT id::text, %(tick_id)s, %(process_id)s, 0, 0 FROM run RETURNING run_id"""
COUNT_RUN = "UPDATE crawl_run_facts SET items = %(items)s, pages = %(pages)s WHERE run_id = %(run)s"
CLOSE_RUN = """
UPDATE crawl_runs SET status = %(status)s, finished_at = %(now)s, error = %(error)s
WHERE id = %(run)s AND status = 'running'"""
END_SOURCE = """
UPDATE sources SET
  consecutive_failures = CASE WHEN %(error)s::text IS NULL THEN 0 ELSE coalesce(consecutive_failures, 0) + 1 END,
  history_position = coalesce(%(position)s::timestamptz, history_position),
  history_done = coalesce(%(done)s::boolean, history_done)
WHERE code = %(source)s"""


class Tick:
    """One tick: why to crawl, and how far back.

    data         the tick as it came, with the fields of the source's payload
    url          the payload's `url`, or None
    trigger      `startup`, `schedule`, `restart` or `manual`
    run_id       of the run in crawl_runs, as text; None without Postgres
    since        what was published before this is not news any more; None where all of it is (no backfill_hours, or 0)
    target, position   the segment of history that is still to be crawled, backwards from position (None: from now) to
                 target; target is None where none is wanted
    """

    def __init__(self, data):
        self.data = data
        self.id = data.get("tick_id")
        self.url = data.get("url")
        self.trigger = data.get("trigger") or "manual"  # pushed by hand; a run without a trigger would never be marked
        hours = data.get("backfill_hours")
        self.since = datetime.now(UTC) - timedelta(hours=hours) if hours else None
        history = data.get("history") or {}
        self.target, self.position = moment(history.get("target")), moment(history.get("position"))
        self.run_id = self.reached = self.history_done = None

    @classmethod
    def parse(cls, raw):
        """Reads what stood in the list; ValueError where it is no tick."""
        data = json.loads(raw)
        if not isinstance(data, dict):
            raise ValueError("a tick must be a JSON object")
        try:
            return cls(data)
        except (TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"a field of the tick is wrong: {error}") from error

    def wants(self, published):
        """Whether something published at this time (None: unknown) belongs to this run. Notes how far back history came."""
        if published is None:
            return True
        if self.target and self.target <= published and (self.position is None or published < self.position):
            self.reached = min(published, self.reached or published)
            return True
        return self.since is None or published >= self.since

    def end_of_history(self):
        """Called by the spider when the site has nothing older that is wanted: with this run the history is done."""
        if self.target is not None:
            self.history_done = True


class CrawlkeeperRuns:
    """The extension. One task takes ticks and runs them one after the other, another one writes the heartbeat."""

    def __init__(self, crawler):
        self.crawler, self.spider = crawler, crawler.spider
        env = os.environ.get
        self.source = env("CRAWLKEEPER_SOURCE") or self.spider.name
        self.key = env("CRAWLKEEPER_START_URLS_KEY") or f"crawler:{self.source}:start_urls"
        self.heartbeat_key = self.key.removesuffix(":start_urls") + ":heartbeat"
        self.postgres_url = env("CRAWLKEEPER_POSTGRES_URL")
        redis_url = env("CRAWLKEEPER_REDIS_URL") or "redis://127.0.0.1:6379/0"
        self.redis = redis.asyncio.Redis.from_url(redis_url, socket_timeout=10, socket_connect_timeout=10)
        self.idle = asyncio.Event()
        self.tasks = []
        self.run_id = None  # of the open run
        self.pages = self.items = 0  # of this process
        self.before = (0, 0)  # pages and items when the open run began
        self.errors = []  # of the open run, the first few

    @classmethod
    def from_crawler(cls, crawler):
        if not hasattr(crawler.spider, "tick_requests"):
            raise NotConfigured  # a spider that knows nothing of ticks
        self = cls(crawler)
        for signal in ("spider_opened", "spider_idle", "spider_closed", "response_received", "item_scraped", "item_error",
                       "spider_error"):
            crawler.signals.connect(getattr(self, signal), signal=getattr(signals, signal))
        return self

    # --- Scrapy's signals ---------------------------------------------------------------------------------------------

    def spider_opened(self):
        self.tasks = [asyncio.ensure_future(self.take_ticks()), asyncio.ensure_future(self.beat())]

    def spider_idle(self):
        self.idle.set()  # ends the open run
        raise DontCloseSpider

    async def spider_closed(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.run_id is not None:  # leave the row to the manager, but tell what was done
            logger.warning("Run %s is left to the manager: stopped before it was finished", self.run_id)
            try:
                async with asyncio.timeout(2):
                    await self.transaction(COUNT_RUN)
            except (TimeoutError, psycopg.Error) as error:
                logger.warning("Cannot count run %s: %s", self.run_id, error)
        await self.redis.aclose()

    def response_received(self, request):
        self.pages += request.callback is not NO_CALLBACK  # robots.txt is no page

    def item_scraped(self):
        self.items += 1

    def item_error(self, failure):
        self.failed(failure)

    def spider_error(self, failure):
        self.failed(failure)

    def failed(self, failure):
        """Makes the open run a failed one. Also the errback of the tick's own requests."""
        response = getattr(failure.value, "response", None)  # of an HttpError, whose own text does not name the status
        self.note(failure.value if response is None else f"HTTP status {response.status} from {response.url}")

    def note(self, error):
        """Keeps the first few errors of a run, in words."""
        if len(self.errors) < 3:
            self.errors.append(error if isinstance(error, str) else f"{type(error).__name__}: {error}")

    # --- ticks and runs -----------------------------------------------------------------------------------------------

    async def take_ticks(self):
        """Takes ticks and runs them, until it is cancelled."""
        away = False
        while True:
            try:
                raw, away = await self.redis.lpop(self.key), False
            except (redis.RedisError, OSError) as error:
                if not away:
                    logger.warning("Cannot take ticks, trying again: %s", error)
                raw, away = None, True
            if raw is None:
                await asyncio.sleep(POLL_SECONDS)
                continue
            try:
                tick = Tick.parse(raw)
            except ValueError as error:
                logger.error("Not a tick, dropped: %.200r: %s", raw, error)
                continue
            try:
                await self.run(tick)
            except Exception:  # a fault in here must not end the taking of ticks
                logger.exception("Run %s could not be kept", self.run_id)

    async def run(self, tick):
        """One run: opens it, crawls until nothing is left to do, closes it."""
        self.errors, self.before = [], (self.pages, self.items)
        self.run_id = tick.run_id = await self.insist(OPEN_RUN, trigger=tick.trigger, tick_id=tick.id)
        logger.info("Run %s begins (%s)", self.run_id, tick.trigger)
        self.spider.tick = tick
        self.idle.clear()
        try:
            for request in self.spider.tick_requests(tick):
                # Each run wants them anew, so no filter of duplicates; without an errback of their own a failure is the run's.
                self.crawler.engine.crawl(request.replace(dont_filter=True, errback=request.errback or self.failed))
        except Exception as error:  # whatever the spider's own code may raise is a failure of this run, no more
            logger.exception("tick_requests failed")
            self.note(error)
        await self.idle.wait()
        self.spider.tick = None
        error = "; ".join(self.errors)[:2000] or None
        await self.insist(COUNT_RUN, CLOSE_RUN, END_SOURCE, status="failed" if error else "succeeded", error=error,
                          position=None if error else tick.reached, done=None if error else tick.history_done)
        logger.info("Run %s ends: %s", self.run_id, error or "succeeded")
        self.run_id = None

    async def insist(self, *statements, **values):
        """Does the statements in one transaction, as often as it takes while Postgres is away."""
        while True:
            try:
                return await self.transaction(*statements, **values)
            except psycopg.OperationalError as error:
                logger.warning("Postgres is away, trying again: %s", error)
            except psycopg.Error:  # a table or a column that is not as expected: say it, but keep crawling
                logger.exception("Cannot keep this run in crawl_runs")
                return None
            await asyncio.sleep(RETRY_SECONDS)

    async def transaction(self, *statements, **values):
        """Does the statements on a connection of their own; returns what the last one returned, if it did."""
        if not self.postgres_url:
            return None
        values |= {"source": self.source, "run": self.run_id, "now": datetime.now(UTC), "pages": self.pages - self.before[0],
                   "items": self.items - self.before[1], "process_id": os.environ.get("CRAWLKEEPER_PROCESS_ID")}
        async with await psycopg.AsyncConnection.connect(self.postgres_url, connect_timeout=10) as connection:
            for statement in statements:
                cursor = await connection.execute(statement, values)
            return (await cursor.fetchone())[0] if cursor.description else None

    async def beat(self):
        """Writes the heartbeat, until it is cancelled: pages and items of this process, and the time."""
        while True:
            beat = {"pages": self.pages, "items": self.items, "at": datetime.now(UTC).isoformat()}
            try:
                async with self.redis.pipeline() as pipe:
                    await pipe.hset(self.heartbeat_key, mapping=beat).expire(self.heartbeat_key, int(6 * BEAT_SECONDS)).execute()
            except (redis.RedisError, OSError) as error:
                logger.debug("Cannot write the heartbeat: %s", error)
            await asyncio.sleep(BEAT_SECONDS)


def moment(text):
    """A time or a date of a tick; a date is its midnight in UTC."""
    if text is None:
        return None
    when = datetime.fromisoformat(text)
    return when if when.tzinfo else when.replace(tzinfo=UTC)
