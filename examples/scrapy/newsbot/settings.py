"""Settings of the project. What crawlkeeper tells a crawler comes in the environment (CRAWLKEEPER_…)."""

import os

BOT_NAME = "newsbot"
SPIDER_MODULES = ["newsbot.spiders"]
USER_AGENT = "newsbot (example of crawlkeeper)"
ROBOTSTXT_OBEY = True
LOG_LEVEL = "INFO"
STATS_DUMP = False  # a page of log lines at every end, which the manager would keep as evidence

# A graceful stop waits for the pages in flight, and the manager for `stop_timeout` (15 s): with this a stop always ends
# in time, however slow the site is.
DOWNLOAD_TIMEOUT = 10
RETRY_TIMES = 1
DEPTH_LIMIT = 2

EXTENSIONS = {
    # Takes ticks and keeps the runs of every spider that has `tick_requests`; leaves the others alone.
    "crawlkeeper_runs.CrawlkeeperRuns": 100,
    # Both listen on a port in every process, which nobody needs in a fleet; without them a spider is smaller, too.
    "scrapy.extensions.telnet.TelnetConsole": None,
    "scrapy.extensions.remote_control.RemoteControl": None,
}
ITEM_PIPELINES = {"newsbot.pipelines.StoreItems": 100}

# --- For stock scrapy-redis spiders -----------------------------------------------------------------------------------
# The keys are those of crawlkeeper's contract with its default prefix, "crawler:".
REDIS_URL = os.environ.get("CRAWLKEEPER_REDIS_URL", "redis://127.0.0.1:6379/0")
REDIS_START_URLS_KEY = "crawler:%(name)s:start_urls"
SCHEDULER_QUEUE_KEY = "crawler:%(spider)s:requests"
SCHEDULER_DUPEFILTER_KEY = "crawler:%(spider)s:dupefilter"
