# SPDX-License-Identifier: Apache-2.0
"""The result file: what is read is what was written, and nothing else gets through."""

import datetime
import json

import hypothesis

from nova_perf_tuning.nova import host_result
from tests.support import directories, host_results, testcase

DAY = datetime.timedelta(days=1)


class ObjectionTest(testcase.TestCase):
    def counts(self, now=host_results.NOW, host="cmp1", other="cmp1"):
        return host_results.result(host=host).objection(other, now, DAY) is None

    def test_old_result_does_not_count(self):
        self.assertTrue(self.counts(host_results.NOW + DAY))
        self.assertFalse(self.counts(host_results.NOW + DAY + datetime.timedelta(seconds=1)))

    def test_result_of_the_future_does_not_count(self):
        self.assertTrue(self.counts(host_results.NOW - host_result.MAX_SKEW))
        self.assertFalse(
            self.counts(host_results.NOW - host_result.MAX_SKEW - datetime.timedelta(seconds=1))
        )

    def test_host_is_compared_with_and_without_domain(self):
        same = [
            ("cmp1", "CMP1"),
            ("cmp1", "cmp1.example.org"),
            ("cmp1.example.org.", "CMP1.example.org"),
        ]
        for name, other in same + [pair[::-1] for pair in same]:
            self.assertTrue(self.counts(host=name, other=other))
        for other in ("cmp2", "cmp1.example.net", "cmp10"):
            with self.subTest(other):
                self.assertFalse(self.counts(host="cmp1.example.org", other=other))


class ReadTest(directories.DirectoryCase):
    def read(self, data):
        return host_result.read(self.write_file("verdict.json", data))

    def refused(self, data):
        error = self.assertRaises(host_result.ResultError, self.read, data)
        self.assertIn(f"{self.directory}/verdict.json", str(error))
        self.assertEqual(1, len(str(error).splitlines()))
        return str(error)

    @hypothesis.given(host_results.RESULTS)
    def test_round_trip(self, written):
        self.assertEqual(written, self.read(written.to_json()))

    def test_what_would_not_be_read_is_not_written(self):
        for fields in (
            {"losses": {"x" * (host_result.MAX_FIGURE + 1): (0.1, 0.2)}},
            {"losses": {str(number): (0.1, 0.2) for number in range(host_result.MAX_LOSSES + 1)}},
            {"losses": {f"{number}{chr(0x20000) * 790}": (0.1, 0.2) for number in range(1000)}},
            {"host": "x" * 256},
            {"budgets": {"../a": "PASS"}},
        ):
            with self.subTest(fields):
                result = host_results.result(**fields)
                error = self.assertRaises(host_result.ResultError, result.to_json)
                self.assertEqual(1, len(str(error).splitlines()))
                self.assertLess(len(str(error)), 400)

    def test_each_wrong_field(self):
        right = json.loads(host_results.result(score=50.0).to_json())
        self.assertEqual(
            host_results.result(score=50.0),
            self.read(json.dumps({**right, "later": "x" * 500_000})),
        )
        for key, wrong in (
            ("schema", [0, 2, "1", None]),
            ("host", ["", None, 5, "x" * 256]),
            ("created_at", [None, 1700000000, "yesterday", "2026-11-21T12:00:00", "2026-11-21"]),
            ("verdict", ["pass", None, True]),
            ("budgets", [None, [], {"a": "ok"}, {"../a": "PASS"}, {"a\n": "PASS"}, {"": "PASS"}]),
            ("score", ["97", True, -1, 100.5, [1]]),
        ):
            with self.subTest(key):
                for value in wrong:
                    self.assertIn(
                        key, self.refused(json.dumps({**right, key: value})), f"{key}={value!r}"
                    )
        for time in ("9999-12-31T23:59:59-23:00", "2026-13-41T12:00:00Z"):
            self.refused(json.dumps({**right, "created_at": time}))

    def test_missing_is_no_error(self):
        self.assertIsNone(host_result.read(f"{self.directory}/verdict.json"))
        self.assertIsNone(host_result.read(f"{self.directory}/below/nothing"))

    def test_unusable_files_are_refused(self):
        for data in (b" " * (1 << 20), b"\xff\xfe", "", "{", "[" * 20000, "null"):
            self.refused(data)
