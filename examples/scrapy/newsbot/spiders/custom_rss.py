"""One spider for all sources that are feeds: `scrapy crawl custom_rss -a source_code=CODE`."""

import scrapy
from w3lib.url import add_or_replace_parameter

from newsbot.items import feed_articles


class CustomRss(scrapy.Spider):
    """Reads the feed that the source's payload names with `url`.

    Its name becomes the source's code, so that logs and keys tell the processes of this spider apart. While history is
    wanted, each run reads one older page too, as `?before=TIME`; a feed that knows no such pages has no history.
    """

    name = "custom_rss"
    tick = None

    def __init__(self, source_code=None, **kwargs):
        if not source_code:
            raise ValueError("custom_rss needs -a source_code=CODE")
        kwargs["name"] = source_code
        super().__init__(**kwargs)

    def tick_requests(self, tick):
        if not tick.url:
            raise ValueError("no feed to read: the source's payload has no url")
        yield scrapy.Request(tick.url)
        if tick.target and tick.position:
            older = add_or_replace_parameter(tick.url, "before", tick.position.isoformat())
            yield scrapy.Request(older, callback=self.parse_older, meta={"handle_httpstatus_list": [404, 410]})

    def parse(self, response):
        return (article for article in feed_articles(response) if self.tick.wants(article.published))

    def parse_older(self, response):
        tick = self.tick
        older = [article for article in feed_articles(response) if article.published and article.published < tick.position]
        if not older or min(article.published for article in older) < tick.target:
            tick.end_of_history()
        return (article for article in older if tick.wants(article.published))
