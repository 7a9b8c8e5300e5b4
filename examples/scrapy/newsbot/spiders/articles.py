"""A spider that takes plain ticks and keeps its runs in crawl_runs."""

import scrapy

from newsbot.items import links, page_article


class Articles(scrapy.Spider):
    """Crawls a page and the articles that it links to; each of them once in the life of the process.

    The page is the `url` in the source's payload, or that of `-a url=…`. It walks no archive: a source that wants history
    needs another spider, such as custom_rss.
    """

    name = "articles"
    url = None
    tick = None

    def tick_requests(self, tick):
        url = tick.url or self.url
        if not url:
            raise ValueError("no page to crawl: neither a url in the source's payload nor -a url=…")
        yield scrapy.Request(url)

    def parse(self, response):
        article = page_article(response)
        if article is None:
            yield from response.follow_all(links(response))
        elif self.tick.wants(article.published):
            yield article
