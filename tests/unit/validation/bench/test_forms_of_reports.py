# SPDX-License-Identifier: Apache-2.0
"""Forms of the reports of himenobmtxp, tpcc-mysql and dd: parts, several runs, errors, commands."""

from nova_perf_tuning.validation.bench import base, recognition
from tests.support import testcase

LOOPS = """Loop executed for 50 times
Gosa : 1.2e-03
MFLOPS measured : {}  cpu : 21.4
Score based on MMX Pentium 200MHz : 254.5
"""
TPCC = """<Raw Results>
  [0] sc:1100 lt:100  rt:0  fl:0 avg_rt: 3.9 (5)
 in 60 sec.
<Constraint Check> (all must be [OK])
      New-Order: 83.45%  [{}]
<TpmC>
                 1200.000 TpmC
"""
DD = "{}+0 records in\n{}+0 records out\n{} bytes (1.1 GB) copied, 2.0 s, {} MB/s\n"


def shown(text, kind):
    """Return report and metric -> value of a text that a tool of this kind recognises."""
    tool = recognition.recognise(text)
    assert tool.kind == kind, tool.kind
    report = tool.checked_report(text)
    return report, {reading.metric: reading.value for reading in report.readings}


def copied(block, count):
    size = block * count
    return DD.format(count, count, size, f"{size / 2e6:.0f}")


class HimenoTest(testcase.TestCase):
    def test_the_grid_of_all_processes(self):
        grids = (
            "Sequential version array size\n mimax = 513 mjmax = 513 mkmax = 1025\n"
            "Parallel version array size\n mimax = 259 mjmax = 259 mkmax = 515\n"
            "I-decomp = 2 J-decomp = 2 K-decomp =2\n"
        )
        report, _figures = shown(grids + LOOPS.format(21082.5), "himenobmtxp")
        self.assertEqual("513 x 513 x 1025", report.workload["grid"])
        self.assertEqual("2 x 2 x 2", report.workload["processes"])

    def test_the_command_of_each_run(self):
        text = ""
        for offset in (127, 0):
            text += f"user@host:~ % taskset -c 3 ./himenobmtxpa L {offset}\n" + LOOPS.format(1000)
        report, _figures = shown(text, "himenobmtxp")
        self.assertEqual("taskset -c 3 ./himenobmtxpa L 0", report.workload["run2_command"])
        text = "The himenobmtxp program.\n" + LOOPS.format(1000) + LOOPS.format(1000)
        self.assertNotIn("run2_command", shown(text, "himenobmtxp")[0].workload)


class TpccMysqlTest(testcase.TestCase):
    def test_several_runs(self):
        report, figures = shown(TPCC.format("OK") + TPCC.format("NG"), "tpcc_mysql")
        self.assertEqual((1200, 1200), (figures["run1_tpmc"], figures["run2_tpmc"]))
        self.assertFalse([reading for reading in report.readings if reading.primary])
        self.assertIn("run2: 1 of 1 constraints", report.remarks["constraints_failed"])
        self.assertIn("warehouses, connections: ", "\n".join(report.left_out))

    def test_a_run_without_its_end_is_named(self):
        part = TPCC[: TPCC.index("<TpmC>")].format("OK")
        report, figures = shown(TPCC.format("OK") + part, "tpcc_mysql")
        self.assertEqual(1200, figures["run1_tpmc"])
        self.assertIn("run2: tpcc_mysql: the run is cut off", "\n".join(report.left_out))
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, part)
        self.assertIn("cut off", str(error))

    def test_figures_fit_the_seconds_of_the_raw_results(self):
        text = TPCC.format("OK").replace("in 60 sec", "in 30 sec")
        error = self.assertRaises(base.BenchmarkOutputError, recognition.recognise, text)
        self.assertIn("contradict", str(error))


class DdTest(testcase.TestCase):
    def test_an_error_comes_first(self):
        command = "$ dd if=/dev/zero of=/data/x bs=1M\n"
        for said, refused in (
            ("dd: error writing '/data/x': No space left on device\n", True),
            ("/usr/bin/dd: closing output file: Input/output error\n", True),
            ("dd: warning: partial read (512 bytes); suggest iflag=fullblock\n", False),
        ):
            text = command + said + copied(2**20, 1000)
            with self.subTest(said):
                if refused:
                    error = self.assertRaises(
                        base.BenchmarkOutputError, recognition.recognise, text
                    )
                    self.assertIn(said.strip(), str(error))
                else:
                    self.assertEqual(524.288, shown(text, "dd")[1]["throughput"])

    def test_a_command_of_another_run_is_left_out(self):
        for operand, fits in (
            ("bs=1M", True),
            ("bs=1m", True),
            ("bs=1MiB", True),
            ("bs=1048576", True),
            ("bs=2048b", True),
            ("bs=$((1024*1024))", True),
            ("ibs=4k obs=1M", True),
            ("bs=1MB", False),
            ("bs=512k", False),
            ("count=1000", False),
        ):
            text = f"$ dd if=/dev/zero of=x {operand}\n" + copied(2**20, 1000)
            report, _figures = shown(text, "dd")
            with self.subTest(operand):
                self.assertEqual(fits, "command" in report.workload)
                self.assertEqual(not fits, "another run's" in "\n".join(report.left_out))

    def test_bytes_a_second_of_old_versions(self):
        for unit in ("secs", "sec", "seconds"):
            text = (
                "10+0 records in\n10+0 records out\n"
                f"10485760 bytes transferred in 0.5 {unit} (20971520 bytes/sec)\n"
            )
            with self.subTest(unit):
                self.assertEqual(20.97152, shown(text, "dd")[1]["throughput"])
