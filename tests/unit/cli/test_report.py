# SPDX-License-Identifier: Apache-2.0
"""nova-perf report: HTML beside the results, JSON for programs."""

import json
import os
import stat

from nova_perf_tuning.validation.measure import store
from tests.support import directories, program, samples


class ReportTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.results = os.path.join(self.directory, "results.json")
        store.save(samples.results({"host": 1000.0, "untuned": 500.0, "tuned": 900.0}), self.results)

    def test_beside_the_results_or_where_asked(self):
        other = os.path.join(self.directory, "other.html")
        for arguments, path in (((), os.path.join(self.directory, "report.html")), (("-o", other), other)):
            with self.subTest(arguments):
                done = program.nova_perf("report", self.results, *arguments)
                self.assertEqual((0, f"{path}\n", ""), (done.returncode, done.stdout, done.stderr))
                with open(path, encoding="utf-8") as file:
                    self.assertIn("a gain in iperf3", file.read())

    def test_json_writes_no_file(self):
        done = program.nova_perf("report", self.results, "-f", "json")
        self.assertEqual("iperf3", json.loads(done.stdout)["benchmarks"][0]["label"])
        self.assertEqual(["results.json"], os.listdir(self.directory))

    def test_mistakes_are_one_line_and_exit_3(self):
        for arguments in (("/nonexistent",), (self.results, "-o", "/nonexistent/x.html"), (os.devnull,)):
            program.refused(self, "report", *arguments)
        self.assertEqual(["results.json"], os.listdir(self.directory))

    def test_what_is_read_and_special_files_stay(self):
        link, pipe = os.path.join(self.directory, "link"), os.path.join(self.directory, "pipe")
        os.symlink("results.json", link)
        os.mkfifo(pipe)
        before = os.stat(self.results)
        for path in (self.results, link, pipe, str(self.directory)):
            program.refused(self, "report", self.results, "-o", path)
        self.assertEqual((before.st_ino, before.st_mtime_ns), (os.stat(link).st_ino, os.stat(link).st_mtime_ns))
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))
