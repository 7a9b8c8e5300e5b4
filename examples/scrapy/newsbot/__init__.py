"""A small Scrapy project whose spiders are kept alive and fed by crawlkeeper."""
