"""The rules of a tick: what is news, what is history, what is no tick."""

import json
import unittest
from datetime import UTC, datetime, timedelta

from crawlkeeper_runs import Tick

NOW = datetime.now(UTC)


def tick(**fields):
    return Tick.parse(json.dumps(fields))


def days_ago(days):
    return NOW - timedelta(days=days)


class Rules(unittest.TestCase):
    def test_fields(self):
        t = tick(trigger="startup", backfill_hours=None, tick_id="t", url="http://x/", section="a")
        self.assertEqual((t.trigger, t.id, t.url, t.since, t.target), ("startup", "t", "http://x/", None, None))
        self.assertEqual(t.data["section"], "a", "the payload's own fields are kept")
        self.assertEqual(tick().trigger, "manual", "a tick that somebody pushed by hand")

    def test_backfill_hours(self):
        for hours, age, want in [(24, 0.9, True), (24, 1.1, False), (None, 9999, True), (0, 9999, True), (0.5, 1, False)]:
            self.assertEqual(tick(backfill_hours=hours).wants(days_ago(age)), want, (hours, age))
        self.assertTrue(tick(backfill_hours=1).wants(None), "what has no time is wanted")

    def test_history(self):
        for position, age, want, moves in [(None, 9, True, True), (None, 10.5, False, False), (None, 0.5, True, True),
                                           (5, 4.9, False, False), (5, 5.1, True, True), (5, 0.5, True, False)]:
            history = {"target": days_ago(10).isoformat(), "position": position and days_ago(position).isoformat()}
            t = tick(backfill_hours=24, history=history)
            self.assertEqual(t.wants(days_ago(age)), want, (position, age))
            self.assertEqual(t.reached, days_ago(age) if moves else None, (position, age))

    def test_history_goes_backwards(self):
        t = tick(backfill_hours=24, history={"target": "2025-01-01", "position": None})
        self.assertEqual(t.target, datetime(2025, 1, 1, tzinfo=UTC), "a date is its midnight")
        for age in (5, 9, 7):
            t.wants(days_ago(age))
        self.assertEqual(t.reached, days_ago(9))
        self.assertIsNone(t.history_done)
        t.end_of_history()
        self.assertTrue(t.history_done)

    def test_no_history(self):
        for history in (None, {}):
            t = tick(history=history)
            t.end_of_history()
            self.assertIsNone(t.history_done)

    def test_no_tick(self):
        for raw in (b"", b"7", b"[]", b"null", b"{", b"\xff", b'{"backfill_hours":"x"}', b'{"backfill_hours":1e300}',
                    b'{"history":[1]}', b'{"history":{"target":7}}', b'{"history":{"target":"soon"}}'):
            with self.assertRaises(ValueError, msg=raw):
                Tick.parse(raw)


if __name__ == "__main__":
    unittest.main()
