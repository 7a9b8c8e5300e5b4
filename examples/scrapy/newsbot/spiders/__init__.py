"""The spiders: the name of each is the code of the source that it crawls."""
