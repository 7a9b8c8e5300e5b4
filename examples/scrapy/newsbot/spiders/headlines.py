"""A stock scrapy-redis spider: it knows nothing of crawlkeeper, nor of runs."""

from scrapy_redis.spiders import RedisSpider

from newsbot.items import feed_articles, is_feed, links, page_article


class Headlines(RedisSpider):
    """Crawls what each entry of its list names: a feed, or a page and the articles that it links to.

    It needs an adapter with `tick: scrapy-redis`, whose ticks are what scrapy-redis understands.
    """

    name = "headlines"
    custom_settings = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    }

    def parse(self, response):
        if is_feed(response):
            yield from feed_articles(response)
        elif article := page_article(response):
            yield article
        else:
            yield from response.follow_all(links(response))
