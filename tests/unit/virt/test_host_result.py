"""The result file: what is read is what was written, and nothing else gets through."""

import datetime
import json
import os

import fixtures
import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.virt import host_result

NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)

NAMES = strategies.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
TIMES = strategies.datetimes(
    datetime.datetime(2000, 1, 1), datetime.datetime(2100, 1, 1), timezones=strategies.just(datetime.UTC)
)
VERDICTS = strategies.sampled_from(host_result.VERDICTS)
RESULTS = strategies.builds(
    host_result.HostResult,
    host=strategies.text(min_size=1, max_size=50),
    created_at=TIMES,
    verdict=VERDICTS,
    budgets=strategies.dictionaries(NAMES, VERDICTS, max_size=8),
    expires_at=strategies.none() | TIMES,
    host_kind=strategies.none() | NAMES,
    score=strategies.none() | strategies.floats(0, 100),
)


def result(**kwargs):
    fields = {"host": "cmp1", "created_at": NOW, "verdict": "PASS", "budgets": {}, **kwargs}
    return host_result.HostResult(**fields)


class ParseTest(testtools.TestCase):
    @hypothesis.given(RESULTS)
    def test_round_trip(self, one):
        self.assertEqual(one, host_result.parse(one.to_json(), "f"))

    @hypothesis.given(strategies.text(max_size=200))
    def test_anything_else_is_one_line(self, text):
        error = self.assertRaises(host_result.ResultError, host_result.parse, text, "/f.json")
        self.assertTrue(str(error).startswith("/f.json: "))
        self.assertEqual(1, len(str(error).splitlines()))

    def test_each_wrong_field(self):
        right = json.loads(result(score=50.0, host_kind="a").to_json())
        for key, wrong in (
            ("schema", [0, 2, "1", None]),
            ("host", ["", None, 5, "x" * 256]),
            (
                "created_at",
                [None, 1700000000, "yesterday", "2026-11-21T12:00:00", "9999-12-31T23:59:59-23:00", ""],
            ),
            ("expires_at", [1700000000, "soon", "2026-11-21"]),
            ("verdict", ["pass", None, True]),
            ("budgets", [None, [], {"a": "ok"}, {"../a": "PASS"}, {"a\n": "PASS"}, {"": "PASS"}]),
            ("host_kind", [5, "", "a b", "a\n"]),
            ("score", ["97", True, -1, 100.5, [1]]),
        ):
            for value in wrong:
                text = json.dumps({**right, key: value})
                error = self.assertRaises(host_result.ResultError, host_result.parse, text, "f")
                self.assertIn(key, str(error), f"{key}={value!r}")

    def test_a_newer_writer_may_add_keys(self):
        text = json.dumps({**json.loads(result().to_json()), "later": {"a": 1}})
        self.assertEqual(result(), host_result.parse(text, "f"))

    def test_largest_result_fits_into_a_file(self):
        names = [f"{number:02d}" + "b" * 61 for number in range(host_result.MAX_BUDGETS)]
        largest = result(host="h" * 255, budgets=dict.fromkeys(names, "INCONCLUSIVE"), host_kind="k" * 63)
        self.assertTrue(len(largest.to_json()) < host_result.MAX_BYTES)


class ObjectionTest(testtools.TestCase):
    def objection(self, now=NOW, **kwargs):
        return result(**kwargs).objection("cmp1", now, DAY)

    def test_age(self):
        self.assertIsNone(self.objection(now=NOW + DAY))
        self.assertIn("result_max_age = 86400", self.objection(now=NOW + DAY + datetime.timedelta(seconds=1)))

    def test_expiry_comes_first(self):
        expires = NOW + datetime.timedelta(hours=1)
        self.assertIsNone(self.objection(now=expires - datetime.timedelta(seconds=1), expires_at=expires))
        self.assertIn("expired", self.objection(now=expires, expires_at=expires))

    def test_future(self):
        self.assertIsNone(self.objection(now=NOW - host_result.MAX_SKEW))
        self.assertIn(
            "in the future", self.objection(now=NOW - host_result.MAX_SKEW - datetime.timedelta(seconds=1))
        )

    def test_host(self):
        same = [("cmp1", "CMP1"), ("cmp1", "cmp1.example.org"), ("cmp1.example.org.", "CMP1.example.org")]
        for one, other in same + [pair[::-1] for pair in same]:
            self.assertIsNone(result(host=one).objection(other, NOW, DAY))
        for other in ("cmp2", "cmp1.example.net", "cmp10"):
            self.assertIn("this is", result(host="cmp1.example.org").objection(other, NOW, DAY))


class ReadTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.useFixture(fixtures.TempDir()).path, "verdict.json")

    def write(self, data):
        with open(self.path, "wb") as file:
            file.write(data)

    def test_right(self):
        self.write(result().to_json().encode())
        self.assertEqual(result(), host_result.read(self.path))

    def test_missing_is_no_error(self):
        self.assertIsNone(host_result.read(self.path))
        self.assertIsNone(host_result.read(self.path + "/below/nothing"))

    def test_unusable(self):
        self.write(b" " * (host_result.MAX_BYTES + 1))
        self.refused("larger")
        self.write(b"\xff\xfe")
        self.refused("UTF-8")

    def refused(self, reason):
        error = self.assertRaises(host_result.ResultError, host_result.read, self.path)
        self.assertIn(reason, str(error))
        self.assertIn(self.path, str(error))
