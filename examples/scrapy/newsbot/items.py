"""What the spiders find, and how they find it in a page or a feed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urldefrag, urlsplit

from parsel import Selector
from scrapy.http import Response, TextResponse, XmlResponse


@dataclass
class Article:
    """One article. `guid` tells it apart from the others of its source: the same article is stored once."""

    guid: str
    url: str
    title: str
    published: datetime | None = None
    summary: str = ""


def is_feed(response: Response) -> bool:
    """Whether this is RSS or Atom rather than a page."""
    if isinstance(response, XmlResponse):
        return True
    head = response.body[:500].lower()
    return b"<rss" in head or b"<feed" in head


def feed_articles(response: TextResponse) -> Iterator[Article]:
    """The entries of an RSS or Atom feed; those without a link and an id are left out."""
    feed = Selector(text=response.text, type="xml")
    feed.remove_namespaces()
    for entry in feed.xpath("//item | //entry"):
        link = first(entry, "link[@rel='alternate' or not(@rel)]/@href", "link/text()")
        url = response.urljoin(link) if link else ""
        guid = first(entry, "guid/text()", "id/text()") or url
        if not guid:
            continue
        yield Article(
            guid=guid,
            url=url,
            title=first(entry, "title/text()"),
            published=moment(first(entry, "pubDate/text()", "published/text()", "updated/text()", "date/text()")),
            summary=first(entry, "description/text()", "summary/text()", "content/text()"),
        )


def page_article(response: TextResponse) -> Article | None:
    """The article on a page, or None where the page has no headline of its own (a list, a form, …)."""
    article = response.xpath("//article[not(ancestor::article)]")
    title = first(response, "//article//h1/text()") if len(article) == 1 else ""
    if not title:
        return None
    return Article(
        guid=response.url,
        url=response.url,
        title=title,
        published=moment(first(article, ".//time/@datetime")),
        summary=first(article, ".//p/text()"),
    )


def links(response: TextResponse) -> list[str]:
    """The pages of the same site that this page links to, each once; not the way through an archive (rel="next")."""
    site = urlsplit(response.url)[:2]
    hrefs = response.xpath("//a[not(@rel='next' or @rel='prev')]/@href").getall()
    urls = (urldefrag(response.urljoin(href.strip())).url for href in hrefs)
    return [url for url in dict.fromkeys(urls) if urlsplit(url)[:2] == site and url != response.url]


def first(node, *paths: str) -> str:
    """The text of the first of these XPaths that finds one, without the white space around it."""
    for path in paths:
        if text := (node.xpath(path).get() or "").strip():
            return text
    return ""


def moment(text: str) -> datetime | None:
    """A time as feeds and pages write it (RFC 2822 or ISO 8601), in UTC where it names no zone; None if it is neither."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = parse(text)
        except ValueError:
            continue
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    return None
