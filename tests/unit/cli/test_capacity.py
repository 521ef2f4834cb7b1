"""nova-perf capacity on results with a known answer."""

import json
import os

import fixtures
import testtools

from nova_perf_tuning.validation.measure import store
from tests.support import program
from tests.unit.validation.judge import test_capacity


class CapacityCommandTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.useFixture(fixtures.TempDir()).path, "results.json")
        blocks = [test_capacity.trial(block=at, order=at, vhost=4.0, emulator=0.5, softirq=0.5) for at in range(8)]
        store.save(test_capacity.results(*blocks), self.path)

    def capacity(self, *arguments):
        return program.nova_perf("capacity", self.path, *arguments)

    def test_answer(self):
        done = self.capacity("--shared", "0-9", "-f", "json")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        document = json.loads(done.stdout)
        self.assertEqual(("all shared work", 16), (document["capacity"]["limits"][0]["resource"],
                                                   document["capacity"]["limits"][0]["guests"]))  # fmt: skip

    def test_mistakes(self):
        for arguments, words in (
            (("--shared", "0-9", "--benchmark", "fio"), "benchmarks that did: iperf3"),
            (("--shared", "x"), "--shared: 'x'"),
            (("--shared", "0-9", "--busy", "80"), "--busy: '80'"),
        ):
            done = self.capacity(*arguments)
            self.assertEqual((3, ""), (done.returncode, done.stdout), arguments)
            self.assertIn(words, done.stderr)
            self.assertEqual(1, done.stderr.count("\n"), done.stderr)
