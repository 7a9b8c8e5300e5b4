# The manager together with the example crawlers. Build it in the root of the repository:
#
#   docker build -t crawlkeeper .
#
# For crawlers of your own begin with `FROM crawlkeeper` and add them, or copy /usr/local/bin/crawlkeeper, which needs nothing
# else, into their image.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/crawlkeeper ./cmd/crawlkeeper

# The Python that the crawlers' requirements were pinned with.
FROM python:3.11-slim-bookworm AS python

FROM python AS crawlers
COPY examples/scrapy/requirements.txt /tmp/requirements.txt
RUN python -m venv /opt/crawlers \
 && /opt/crawlers/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --requirement /tmp/requirements.txt

FROM python
RUN useradd --system --user-group --uid 10001 --home-dir /home/crawlkeeper --create-home crawlkeeper
COPY --from=build /out/crawlkeeper /usr/local/bin/crawlkeeper
COPY --from=crawlers /opt/crawlers /opt/crawlers
COPY examples/scrapy /app/examples/scrapy
COPY configs/crawlkeeper.yaml /etc/crawlkeeper/crawlkeeper.yaml
WORKDIR /app
# Mount a configuration of your own over /etc/crawlkeeper/crawlkeeper.yaml. The Scrapy project is found from every working directory.
ENV PATH=/opt/crawlers/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONPATH=/app/examples/scrapy \
    PYTHONDONTWRITEBYTECODE=1 \
    SCRAPY_SETTINGS_MODULE=newsbot.settings \
    CRAWLKEEPER_CONFIG=/etc/crawlkeeper/crawlkeeper.yaml \
    CRAWLKEEPER_HTTP_LISTEN=0.0.0.0:9870
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
EXPOSE 9870
# Docker waits for 10 seconds after this signal unless told otherwise (docker stop -t, stop_grace_period): let it wait longer than the
# longest stop_timeout.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["crawlkeeper", "health"]
# crawlkeeper is PID 1: it forwards nothing blindly, stops its crawlers itself and reaps orphans. No init is needed.
ENTRYPOINT ["crawlkeeper"]
CMD ["run"]
