# SPDX-License-Identifier: Apache-2.0
"""nova-perf validate: what it refuses before anything runs."""

import contextlib
import io
import os

from nova_perf_tuning import errors
from nova_perf_tuning.cli import validate
from nova_perf_tuning.cli.options import validate as options
from nova_perf_tuning.validation.measure import session
from tests.support import directories, program, samples, testcase


class StoppedTest(directories.DirectoryCase):
    def test_a_run_that_was_stopped_leaves_no_noise_floor(self):
        path = os.path.join(self.directory, "noise.json")
        for ended, stored in (("interrupted", False), ("time limit", True)):
            with self.subTest(ended):
                results = samples.results({"untuned": 100.0, "again": 100.0}, ended=ended)
                validate._store_floors(results, path)
                self.assertEqual(stored, os.path.exists(path))


class OutputTest(directories.DirectoryCase):
    def test_a_directory_in_which_another_run_writes_is_refused_and_stays(self):
        results = self.write_file("out/results.json", "{}")
        output = os.path.dirname(results)
        run = ("validate", "--launcher", "host", "--budget", f"{self.directory}/absent.yaml")
        with options.open_output(output):
            line = program.refused(self, *run, "--output", output)
            self.assertIn(f"{output}: another validation is writing there", line)
            self.assertEqual(["results.json"], os.listdir(output))
        with options.open_output(output):
            self.assertRaises(errors.PerfTuningError, options.open_output, output)
            self.assertRaises(errors.PerfTuningError, options.make_output_directory, output, None)
        options.make_output_directory(output, None).close()


class RefusedTest(directories.DirectoryCase):
    def test_what_results_cannot_hold(self):
        """Nobody could read the results of the run afterwards: its schema allows less than the options did."""
        output = os.path.join(self.directory, "out")
        many_tags = []
        for number in range(1001):
            many_tags += ["--tag", f"k{number}=1"]
        for launcher, arguments, place in (
            ("host", ("--host-group", "g" * 201), "environment.host_group"),
            ("libvirt", ("--flavor", "f" * 201), "environment.flavor"),
            ("host", many_tags, "environment.tags"),
        ):
            with self.subTest(place):
                run = ("validate", "--launcher", launcher, "--output", output, *arguments)
                self.assertIn(f"give shorter or fewer: {place}", program.refused(self, *run))
                self.assertFalse(os.path.exists(output))


class ProgressTest(testcase.TestCase):
    def test_no_estimate_of_nothing_while_something_runs(self):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            show = options.progress(to_stderr=False)
            for done, left_s in ((0, 61), (3, 0.2), (4, 0)):
                show(session.Progress(done, 4, left_s, "pair", important=True))
        self.assertEqual(
            [
                "[0/4] about 1:01 left  pair",
                "[3/4] longer than expected  pair",
                "[4/4] about 0:00 left  pair",
            ],
            shown.getvalue().splitlines(),
        )
