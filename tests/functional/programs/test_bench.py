# SPDX-License-Identifier: Apache-2.0
"""nova-perf bench; benchmarks run for a second on this host."""

import json
import os
import tempfile

from nova_perf_tuning.validation.bench import plugins
from tests.support import directories, program

DATA = os.path.join(os.path.dirname(__file__), "../../unit/validation/bench/data")


class BenchTest(directories.DirectoryCase):
    def test_list_names_benchmarks_units_and_parameters(self):
        done = program.nova_perf("bench", "list")
        self.assertEqual(0, done.returncode, done.stderr)
        for word in ("iperf3", "fio", "cpu", "Mbit/s", "streams", "block_size"):
            with self.subTest(word):
                self.assertIn(word, done.stdout)
        rows = json.loads(program.nova_perf("bench", "list", "-f", "json").stdout)["benchmarks"]
        self.assertEqual(
            [benchmark.kind for benchmark in plugins.load_all()], [row["kind"] for row in rows]
        )

    def test_each_runs_on_this_host(self):
        environment = {**os.environ, "TMPDIR": str(self.directory)}
        for kind, metric in (
            ("cpu:", "events_per_second"),
            ("fio:size=4M,", "iops"),
            ("iperf3:streams=2,", "throughput"),
        ):
            with self.subTest(kind):
                done = program.nova_perf(
                    "bench", "run", f"{kind}seconds=1", "-f", "json", env=environment
                )
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                [primary] = [
                    reading
                    for reading in json.loads(done.stdout)["readings"]
                    if reading["primary"]
                ]
                self.assertEqual(metric, primary["metric"])
                self.assertTrue(primary["value"] > 0)
        self.assertEqual([], os.listdir(self.directory))

    def test_directions_and_syncs_have_figures(self):
        environment = {**os.environ, "TMPDIR": str(self.directory)}
        for given, metrics, work in (
            ("pattern=randrw,seconds=1,size=1m", {"read_iops", "write_latency_p99"}, "randrw"),
            ("pattern=fdatasync,size=1m", {"sync_latency_p99", "iops"}, "write"),
        ):
            with self.subTest(given):
                words = ("bench", "run", f"fio:{given}", "-f", "json")
                done = program.nova_perf(*words, env=environment)
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                document = json.loads(done.stdout)
                named = {reading["metric"] for reading in document["readings"]}
                self.assertEqual(metrics, metrics & named)
                self.assertEqual(work, document["workload"]["pattern"])

    def test_files_in_memory_are_said(self):
        """Where the scratch directory is, and where a parameter puts the files."""
        run, kind = ("bench", "run"), "fio:seconds=1,size=4M"
        with tempfile.TemporaryDirectory(prefix="nova-perf-bench-", dir="/dev/shm") as directory:
            done = program.nova_perf(*run, kind, env={**os.environ, "TMPDIR": directory})
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertIn("warning: fio: the files were in memory (tmpfs)", done.stdout)
            done = program.nova_perf(*run, f"{kind},directory={directory}", "-f", "json")
            self.assertEqual((0, ""), (done.returncode, done.stderr))
        document = json.loads(done.stdout)
        self.assertEqual("tmpfs", document["environment"]["scratch_filesystem"])
        self.assertIn("the speed of memory, not of a disk", " ".join(document["warnings"]))

    def test_parse_reads_a_file_or_stdin(self):
        done = program.nova_perf(
            "bench", "parse", "iperf3", os.path.join(DATA, "iperf3-two-streams.json")
        )
        self.assertEqual(0, done.returncode)
        self.assertIn("23,411", done.stdout)
        with open(os.path.join(DATA, "sysbench-cpu.txt"), encoding="utf-8") as file:
            done = program.nova_perf("bench", "parse", "cpu", "-", "-f", "json", input=file.read())
        self.assertEqual(3052.87, json.loads(done.stdout)["readings"][0]["value"])

    def test_mistakes_are_one_line_and_exit_3(self):
        fio_text = os.path.join(DATA, "fio-two-jobs.json")
        for arguments, words in (
            (
                ("run", "linpack"),
                "there is no benchmark 'linpack'; there are connect, cpu, cyclictest, fio",
            ),
            (("run", "fio:directory=/nonexistent"), "/nonexistent is not a directory"),
            (("run", "fio:size"), "'size' is not KEY=VALUE"),
            (
                ("parse", "iperf3", fio_text),
                "iperf3: the output has no 'start.test_start.protocol'",
            ),
            (("parse", "cpu", "/nonexistent"), "/nonexistent: No such file or directory"),
            (("parse", "cpu", "/"), "/: Is a directory"),
            (("parse", "cpu", "/dev/zero"), "larger than"),
        ):
            with self.subTest(arguments):
                self.assertIn(words, program.refused(self, "bench", *arguments))

    def test_missing_program_names_the_package(self):
        line = program.refused(
            self, "bench", "run", "cpu", env={**os.environ, "PATH": "/nonexistent"}
        )
        self.assertIn("cpu: sysbench is not on this host; install sysbench", line)
