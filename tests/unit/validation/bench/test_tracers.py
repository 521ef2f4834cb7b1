# SPDX-License-Identifier: Apache-2.0
"""Latencies that the kernel's tracers measure: outputs, commands, and a kernel that lacks the tracer."""

import gzip
import os
import pathlib
import platform

from nova_perf_tuning.validation.bench import base, plugins, tracers
from tests.support import directories, testcase

DATA = pathlib.Path(__file__).parent / "data"


def recorded(name):
    return (DATA / name).read_text(encoding="utf-8")


def figures(tool, text):
    return {reading.metric: reading.value for reading in tool.checked_figures(text)}


class HwLatencyTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.tool = tracers.HwLatency()
        self.text = recorded("hwlatdetect.txt")

    def test_figures_and_work(self):
        report = self.tool.checked_report(self.text)
        self.assertEqual({"latency_max": 22.0, "gaps": 3.0}, figures(self.tool, self.text))
        self.assertEqual("120", report.workload["duration"])
        self.assertEqual(("1us", "2-3"), (report.workload["threshold"], report.workload["cpus"]))
        self.assertEqual({}, report.remarks)

    def test_no_gap_is_the_threshold_and_says_so(self):
        text = self.text.replace("Max Latency: 22us", "Max Latency: Below threshold")
        text = text.replace("threshold: 3", "threshold: 0")
        self.assertEqual({"latency_max": 1.0, "gaps": 0.0}, figures(self.tool, text))
        self.assertIn("below_threshold", self.tool.remarks(text))

    def test_a_gap_is_no_failure_of_the_program(self):
        """hwlatdetect ends with 1 where a gap is above --hardlimit, which is the threshold else."""
        [step] = self.tool.steps({"seconds": "5", "cpus": "2-3+8"})
        self.assertIn("--hardlimit=1000000000us", step.argv)
        self.assertIn("--cpu-list=2-3,8", step.argv)
        [step] = self.tool.steps({})
        self.assertEqual([], [word for word in step.argv if word.startswith("--cpu")])


class TimerLatencyTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.tool = tracers.TimerLatency()
        self.text = recorded("timerlat-hist.txt")

    def test_figures_of_thread_and_interrupt(self):
        found = figures(self.tool, self.text)
        # 19,800 of 20,000 threads: the last 0.5 % of those within the bar of 3 µs.
        self.assertAlmostEqual(3 + (19_800 - 14_000) / 5_800, found["latency_p99"])
        self.assertAlmostEqual(10_000 / 13_000, found["irq_latency_p50"])
        self.assertEqual((14_250.0, 3.0), (found["latency_max"], found["irq_latency_max"]))
        self.assertEqual((12.0, 14_250.0), (found["latency_max_cpu2"], found["latency_max_cpu3"]))
        self.assertEqual(1.0, found["latency_min"])

    def test_nanoseconds_are_read_as_such(self):
        text = self.text.replace("microseconds (us)", "nanoseconds (ns)")
        self.assertAlmostEqual(14.25, figures(self.tool, text)["latency_max"])

    def test_what_is_not_whole_is_refused(self):
        for old, new in (
            ("# Time unit is microseconds (us)\n", ""),
            ("max:          3        12         2     14250\n", ""),
            ("3            10      2900         0      2900\n", ""),
            ("# Duration", "Index   IRQ-000\n# Duration"),
        ):
            with self.subTest(old):
                self.assertIn(old, self.text)
                text = self.text.replace(old, new, 1)
                self.assertRaises(base.BenchmarkOutputError, self.tool.checked_figures, text)

    def test_wrapped_lines_are_no_table_of_fewer_cpus(self):
        lines = [line[:36].rstrip() + "\n" + line[36:] for line in self.text.split("\n")]
        self.assertRaisesRegex(
            base.BenchmarkOutputError, "are wrapped", self.tool.checked_figures, "\n".join(lines)
        )

    def test_it_is_found_out_by_its_output(self):
        self.assertTrue(self.tool.printed(self.text))
        self.assertTrue(tracers.HwLatency().printed(recorded("hwlatdetect.txt")))
        self.assertFalse(tracers.HwLatency().printed(self.text))


class KernelTest(directories.DirectoryCase):
    def config(self, text):
        path = pathlib.Path(self.directory, "proc/config.gz")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(f"\n{text}\n".encode()))

    def lack(self):
        return tracers.lack("hwlat", "CONFIG_HWLAT_TRACER", str(self.directory))

    def test_a_kernel_without_the_tracer_is_named(self):
        self.config("# CONFIG_HWLAT_TRACER is not set")
        self.assertIn(f"the kernel {platform.release()} has no tracer 'hwlat'", self.lack())
        self.config("CONFIG_HWLAT_TRACER=y")
        self.write_file("sys/kernel/tracing/available_tracers", "function nop\n")
        self.assertIn("was built without CONFIG_HWLAT_TRACER", self.lack())
        self.write_file("sys/kernel/tracing/available_tracers", "hwlat nop\n")
        self.assertEqual("", self.lack())

    def test_what_cannot_be_read_says_what_to_do(self):
        self.patch(os, "geteuid", lambda: 0)
        self.assertIn("mount -t tracefs", self.lack())
        self.config("CONFIG_HWLAT_TRACER=y")
        self.assertEqual("", self.lack())  # the program mounts it
        self.patch(os, "geteuid", lambda: 1000)
        self.assertIn("run it as root", self.lack())

    def test_the_benchmark_is_refused_with_that(self):
        tool = tracers.TimerLatency()
        self.patch(tracers, "lack", lambda tracer, option: f"no {tracer} of {option}")
        error = self.assertRaises(plugins.MissingProgramError, plugins.check_installed, tool, {})
        self.assertEqual("timerlat: no timerlat of CONFIG_TIMERLAT_TRACER", str(error))


class CommandTest(testcase.TestCase):
    def test_the_period_of_the_command(self):
        for command in (
            "rtla timerlat hist -d 10m -p 1000",
            "timerlat hist -d 10m -p 1000 --no-aa",
        ):
            text = f"[root@host ~]# {command}\n{recorded('timerlat-hist.txt')}"
            report = tracers.TimerLatency().checked_report(text)
            self.assertEqual("1000", report.workload["period in µs"])
