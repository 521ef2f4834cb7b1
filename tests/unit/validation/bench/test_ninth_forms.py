# SPDX-License-Identifier: Apache-2.0
"""Kinds of outputs that the ninth batch of the field has shown: tools' warnings, remarks, several tools in a log."""

from nova_perf_tuning.validation.bench import base, pasted, plugins
from tests.support import testcase

TPCC = """\
<Raw Results>
  [0] sc:0 lt:2468  rt:13421555  fl:6722 avg_rt: 127.6 (5)
  [1] sc:0 lt:2737  rt:12886877  fl:6440 avg_rt: 75.8 (5)
  [2] sc:0 lt:0  rt:1834474  fl:917 avg_rt: -nan (5)
  [3] sc:0 lt:0  rt:1835461  fl:917 avg_rt: nan (80)
  [4] sc:780 lt:138  rt:0  fl:0 avg_rt: 64.4 (20)
 in 10800 sec.
<Constraint Check> (all must be [OK])
 [transaction percentage]
        Payment: 44.70% (>=43.0%) [OK]
   Order-Status: 0.00% (>= 4.0%) [NG] *
 [response time (at least 90% passed)]
      New-Order: 0.00%  [NG] *
   Order-Status: -nan%  [NG] *
<TpmC>
                 13.711 TpmC
"""


def read(text):
    """Return the kind and the report of a paste that names no tool."""
    shown = pasted.decode(text.encode())
    tool = plugins.recognise(shown)
    return tool.kind, plugins.report(tool, shown)


def refusal(case, text):
    """Return why a paste that names no tool is not read."""
    shown = pasted.decode(text.encode())
    return str(case.assertRaises(base.BenchmarkOutputError, plugins.recognise, shown))


def figures(report):
    return {reading.metric: reading.value for reading in report.readings}


class TpccMysqlTests(testcase.TestCase):
    def test_failed_transactions_are_of_all_kinds(self):
        _kind, report = read(TPCC)
        self.assertEqual(6722 + 6440 + 917 + 917, figures(report)["failed"])

    def test_a_part_of_the_rows_has_no_number_of_failed_transactions(self):
        _kind, report = read(TPCC.replace("  [4] sc:780 lt:138  rt:0  fl:0 avg_rt: 64.4 (20)\n", ""))
        self.assertNotIn("failed", figures(report))
        self.assertIn("failed: the raw results have 4 of 5 rows", "\n".join(report.left_out))

    def test_constraints_of_what_was_never_finished_are_counted(self):
        _kind, report = read(TPCC)
        said = report.remarks["constraints_failed"]
        self.assertIn("3 of 4 constraints are NG", said)
        self.assertIn("share of all: Order-Status 0.00 %; in time: New-Order 0.00 %", said)
        self.assertIn("Order-Status -nan %", said)
        left_out = "\n".join(report.left_out)
        for name in ("order_status", "delivery"):
            self.assertNotIn(f"{name}_latency_mean", figures(report))
            self.assertIn(f"mean latency of {name}: none was finished", left_out)


FIO_2 = """\
test-write: (g=0): rw=write, bs=32K-32K/32K-32K, ioengine=sync, iodepth=32
{}
Starting 1 process

test-write: (groupid=0, jobs=1): err= 0: pid=4283
  write: io=4685.3MB, bw=79961KB/s, iops=2498 , runt= 60001msec
    clat (usec): min=101 , max=78393 , avg=396.14, stdev=1190.18
     issued    : total=r=0/w=149929/d=0, short=r=0/w=0/d=0
"""


class FioVersionTests(testcase.TestCase):
    def test_a_version_in_a_line_of_its_own(self):
        for line in ("2.0.8", "2.1", "1.99.12", "2.0.7-6-g8a2b", "fio 1.59", "fio-2.1.10"):
            _kind, report = read(FIO_2.format(line))
            with self.subTest(line):
                version = line.removeprefix("fio").strip(" -")
                self.assertEqual(version, report.workload.get("version"))
                self.assertNotIn("version: ", "\n".join(report.left_out))

    def test_of_several_runs_each_has_its_own(self):
        _kind, report = read(FIO_2.format("2.0.8") + "\n\n" + FIO_2.format("2.0.9"))
        self.assertIn("version 2.0.8", report.workload["run1"])
        self.assertIn("version 2.0.9", report.workload["run2"])

    def test_another_number_is_no_version(self):
        text = FIO_2.format("note") + "\n2.5\n"
        _kind, report = read(text)
        self.assertNotIn("version", report.workload)
