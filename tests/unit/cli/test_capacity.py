# SPDX-License-Identifier: Apache-2.0
"""nova-perf capacity on results with a known answer."""

from nova_perf_tuning.validation.measure import results_file
from tests.support import directories, program, samples


class CapacityCommandTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.path = f"{self.directory}/results.json"
        blocks = [
            samples.priced(block=at, order=at, vhost=4.0, emulator=0.5, softirq=0.5)
            for at in range(8)
        ]
        results_file.save(samples.of(blocks), self.path)

    def test_how_many_guests_fit_and_what_runs_out_first(self):
        done = program.document(self, "capacity", self.path, "--shared", "0-11,^1-2")
        [first, *_] = done["capacity"]["limits"]
        self.assertEqual(("all shared work", 16), (first["resource"], first["guests"]))

    def test_mistakes_name_the_option(self):
        for arguments, words in (
            (("--shared", "0-9", "--benchmark", "fio"), "benchmarks that did: iperf3"),
            (("--shared", "x"), "--shared: 'x'"),
            (("--shared", "1,^1"), "--shared: '1,^1' names no CPU"),
            (("--shared", "0-9", "--busy", "80"), "--busy: '80'"),
        ):
            with self.subTest(arguments):
                self.assertIn(words, program.refused(self, "capacity", self.path, *arguments))
