# SPDX-License-Identifier: Apache-2.0
"""What stands around a document of JSON, or behind it, by one policy for all tools."""

import json
import re

from nova_perf_tuning.validation.bench import base, iperf3, pasted, recognition
from tests.support import testcase
from tests.unit.validation.bench import test_parsers


def documents():
    """Yield each kind whose output is JSON, what stands before it, and the document."""
    for kind, good in test_parsers.GOOD.items():
        begin = re.search(r"^\{", good, re.MULTILINE)
        if begin is not None:
            yield kind, good[: begin.start()], good[begin.start() :].rstrip()


def other_run(document):
    """Return a document with another last number."""
    last = list(re.finditer("[0-9]+", document))[-1]
    return f"{document[: last.start()]}9{document[last.start() :]}"


class JsonDocumentsTest(testcase.TestCase):
    def read(self, kind, text):
        return kind().checked_report(pasted.decode(f"{text}\n".encode())).readings

    def test_a_document_twice_is_one(self):
        for kind, before, document in documents():
            alone = self.read(kind, before + document)
            for between in ("", " ", ",", "\n", "\r\n\r\nWARNING: slow\n"):
                with self.subTest(kind.kind, between=between):
                    text = before + document + between + document
                    self.assertEqual(alone, self.read(kind, text))

    def test_a_second_report_is_never_passed_over(self):
        for kind, before, document in documents():
            for between in ("", " ", ",", "\n", "\nWARNING: slow\n"):
                text = before + document + between + other_run(document)
                with self.subTest(kind.kind, between=between):
                    error = self.assertRaises(base.BenchmarkOutputError, self.read, kind, text)
                    self.assertIn("2 reports", str(error))

    def test_a_second_report_that_is_cut_off(self):
        for kind, before, document in documents():
            text = before + document + document[: len(document) // 2]
            with self.subTest(kind.kind):
                error = self.assertRaises(base.BenchmarkOutputError, self.read, kind, text)
                self.assertIn("cut off", str(error))

    def test_records_of_a_log_are_no_reports(self):
        record = '{"level": "info", "msg": "the next line", "data": {"at": 1}}'
        for kind, before, document in documents():
            text = f"{record}\n{before}{document}\n{record}\n{record}{record}"
            with self.subTest(kind.kind):
                self.assertEqual(
                    self.read(kind, before + document),
                    self.read(kind, text),
                )

    def test_events_of_several_tests(self):
        data = json.loads(test_parsers.GOOD[iperf3.Iperf3])
        events = [{"event": name, "data": data[name]} for name in ("start", "end")]
        stream = "\n".join(map(json.dumps, events))
        alone = self.read(iperf3.Iperf3, test_parsers.GOOD[iperf3.Iperf3])
        self.assertEqual(alone, self.read(iperf3.Iperf3, stream))
        self.assertEqual(alone, self.read(iperf3.Iperf3, stream.replace("\n", "")))
        error = self.assertRaises(
            base.BenchmarkOutputError, recognition.recognise, f"{stream}\n{stream}"
        )
        self.assertIn("several tests", str(error))
