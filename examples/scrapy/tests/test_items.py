"""What the spiders find in pages and feeds."""

import unittest
from datetime import UTC, datetime

from scrapy.http import HtmlResponse, XmlResponse

from newsbot.items import Article, feed_articles, is_feed, links, moment, page_article

URL = "https://example.org/feed"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
RSS = """<rss version="2.0"><channel><title>News</title>
  <item><title> One </title><link>/one</link><guid>1</guid><pubDate>Fri, 02 Jan 2026 12:00:00 GMT</pubDate>
    <description>First</description></item>
  <item><title>No id</title><link>/two</link></item>
  <item><title>Neither id nor link</title></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
  <entry><title>One</title><link rel="self" href="/self"/><link href="/one"/><id>urn:1</id>
    <updated>2026-01-02T12:00:00Z</updated><summary>First</summary></entry>
</feed>"""
PAGE = """<article><h1>One</h1><time datetime="2026-01-02T12:00:00Z">then</time><p>First</p></article>"""
LIST = """<h1>News</h1>
<article><h2><a href="/one#top">One</a></h2></article>
<article><a href="https://other.org/">Two</a></article>
<a href="/one">again</a><a rel="next" href="/?before=2026">older</a><a href="mailto:me@example.org">me</a>"""


def feed(body):
    return XmlResponse(URL, body=body.encode())


def page(body):
    return HtmlResponse(URL, body=body.encode(), encoding="utf-8")


class Items(unittest.TestCase):
    def test_rss(self):
        self.assertEqual(list(feed_articles(feed(RSS))), [
            Article("1", "https://example.org/one", "One", NOON, "First"),
            Article("https://example.org/two", "https://example.org/two", "No id"),
        ])

    def test_atom(self):
        self.assertEqual(list(feed_articles(feed(ATOM))), [Article("urn:1", "https://example.org/one", "One", NOON, "First")])

    def test_page(self):
        self.assertEqual(page_article(page(PAGE)), Article(URL, URL, "One", NOON, "First"))
        self.assertIsNone(page_article(page(LIST)))

    def test_links_stay_on_the_site_and_come_once(self):
        self.assertEqual(links(page(LIST)), ["https://example.org/one"])

    def test_is_feed(self):
        self.assertTrue(is_feed(feed(ATOM)))
        self.assertTrue(is_feed(page(RSS)), "served with a wrong type")
        self.assertFalse(is_feed(page(LIST)))

    def test_moment(self):
        for text, want in {
            "2026-01-02T12:00:00Z": NOON,
            "2026-01-02 12:00": NOON,
            "Fri, 02 Jan 2026 13:00:00 +0100": NOON,
            "yesterday": None,
            "": None,
        }.items():
            self.assertEqual(moment(text), want, text)


if __name__ == "__main__":
    unittest.main()
