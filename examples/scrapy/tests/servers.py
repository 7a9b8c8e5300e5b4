"""Private servers for the tests, on free ports of the loopback: Redis, Postgres and a small site. They end with the tests."""

import glob
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import redis

MIGRATIONS = Path(__file__).parents[3] / "sql" / "migrations"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def eventually(what, check, within=30.0):
    """Waits until check() is true, and returns what it returned."""
    deadline = time.monotonic() + within
    while not (result := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:.0f} s: {what}")
        time.sleep(0.02)
    return result


def spawn(argv, *privileges, **options):
    """Starts a program that is killed when the tests die."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *privileges, *argv], **options)


class Redis:
    def __init__(self):
        port = free_port()
        self.url = f"redis://127.0.0.1:{port}/0"
        self.client = redis.Redis.from_url(self.url, decode_responses=True)
        argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = spawn(argv, stdout=subprocess.DEVNULL)
        eventually("Redis answers", self.answers)

    def answers(self):
        try:
            return self.client.ping()
        except redis.ConnectionError:
            return False

    def close(self):
        self.client.close()
        self.process.kill()
        self.process.wait()


class Postgres:
    """A server with the tables that crawlkeeper's migrations make."""

    def __init__(self):
        # Postgres refuses to run as root.
        self.privileges = ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.getuid() == 0 else []
        self.bin = os.path.dirname(max(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or shutil.which("initdb"))
        self.folder = tempfile.mkdtemp(prefix="newsbot-postgres-")
        if self.privileges:
            shutil.chown(self.folder, "postgres", "postgres")
        self.port = free_port()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        argv = [f"{self.bin}/initdb", "-D", self.folder, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
                "--no-sync"]
        spawn(argv, *self.privileges, stdout=subprocess.DEVNULL, cwd="/").wait()
        self.start()
        with psycopg.connect(self.url, autocommit=True) as connection:
            for file in sorted(MIGRATIONS.glob("*.sql")):
                connection.execute(file.read_text().partition("-- +goose Down")[0])

    def start(self):
        argv = [f"{self.bin}/postgres", "-D", self.folder, "-p", str(self.port), "-k", self.folder,
                "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        self.process = spawn(argv, *self.privileges, stderr=subprocess.DEVNULL, cwd="/")
        eventually("Postgres answers", self.answers)

    def answers(self):
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self):
        self.process.send_signal(3)  # SIGQUIT: at once
        self.process.wait()

    def rows(self, query, *values):
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Site:
    """Five articles behind a front page, the same as a feed of three and their older ones, and /slow?seconds=N."""

    def __init__(self):
        methods = {"do_GET": lambda request: self.answer(request), "log_message": lambda *_: None}
        handler = type("Handler", (BaseHTTPRequestHandler,), methods)
        self.asked = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        url = urlsplit(request.path)
        self.asked.append(url.path)
        kind, body = self.page(url)
        request.send_response(200 if body else 404)
        request.send_header("Content-Type", kind)
        request.end_headers()
        request.wfile.write(body.encode())

    def page(self, url):
        days = range(1, 6)
        if url.path == "/":
            links = "".join(f'<li><a href="/articles/{day}">Day {day}</a></li>' for day in days)
            return "text/html", f"<html><body><h1>News</h1><ul>{links}</ul><a href='http://other.invalid/'>x</a></body></html>"
        if url.path.startswith("/articles/"):
            day = url.path.removeprefix("/articles/")
            return "text/html", (f"<html><body><article><h1>Day {day}</h1><time datetime='2026-01-0{day}T12:00:00Z'>then</time>"
                                 f"<p>What happened.</p></article></body></html>")
        if url.path == "/feed":
            before = parse_qs(url.query).get("before")
            days = [day for day in days if f"2026-01-0{day}T12" < before[0]] if before else days[2:]
            items = "".join(f"<item><title>Day {day}</title><link>{self.url}/articles/{day}</link><guid>day-{day}</guid>"
                            f"<pubDate>0{day} Jan 2026 12:00:00 GMT</pubDate></item>" for day in days)
            return "application/rss+xml", f"<rss version='2.0'><channel><title>News</title>{items}</channel></rss>"
        if url.path == "/slow":
            time.sleep(float(parse_qs(url.query)["seconds"][0]))
            return "text/html", "<html><body>At last.</body></html>"
        return "text/plain", ""

    def close(self):
        self.server.shutdown()
        self.server.server_close()
