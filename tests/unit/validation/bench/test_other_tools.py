# SPDX-License-Identifier: Apache-2.0
"""Texts in which a second tool has printed: no figure is shown as if it had not."""

import pathlib

from nova_perf_tuning.validation.bench import base, foreign, pasted, recognition
from nova_perf_tuning.validation.judge import outputs
from tests.support import directories

FIELD = pathlib.Path(__file__).parents[3] / "field" / "outputs5"
DATA = pathlib.Path(__file__).parent / "data"
#: A line of each tool whose output is not read.
LINES = {
    "stress-ng": "stress-ng: info:  [2434] dispatching hogs: 1 cyclic",
    "stress": "stress: info: [7] dispatching hogs: 4 cpu, 0 io, 0 vm, 0 hdd",
    "latmus": "# libevl version: evl.0.47 -- #a1b2c3d\n",
    "latency of Xenomai": "RTH|----lat min|----lat avg|----lat max|-overrun|---msw|\n",
    "ping": "--- 192.0.2.7 ping statistics ---",
    "ioping": "--- . (ext4 /dev/vda1 19.6 GiB) ioping statistics ---",
    "mlc": "Intel(R) Memory Latency Checker - v3.9",
    "STREAM": "STREAM version $Revision: 5.10 $",
    "perf stat": "Performance counter stats for 'system wide':",
    "perf bench": "# Running 'sched/messaging' benchmark:",
    "HammerDB": "Vuser 1:TEST RESULT : System achieved 40844 NOPM from 94022 TPM",
    "pgbench": "number of transactions actually processed: 1000/1000",
    "sockperf": "sockperf: Summary: Latency is 9.8 usec",
    "qperf": "tcp_lat:",
    "wrk": "Running 30s test @ http://192.0.2.7/",
    "redis-benchmark": "====== SET ======",
    "CoreMark": "CoreMark Size    : 666",
    "nuttcp": "2197.0657 MB /  10.00 sec = 1842.3790 Mbps 8 %TX 90 %RX 90 retrans 0.50 msRTT",
    "memtier_benchmark": "ALL STATS",
    "DiskSpd": "Command Line: diskspd.exe -b8K -r -o32 file.dat",
    "iozone": "\tIozone: Performance Test of File I/O",
    "hackbench": "Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)",
}


class OtherToolsTest(directories.DirectoryCase):
    def said(self, text, kind=None):
        tool = recognition.load_reader(kind) if kind else recognition.recognise(text)
        return recognition.report(tool, text).remarks.get("other_tools", "")

    def test_a_tool_that_is_not_read_is_named(self):
        text = (DATA / "oslat.txt").read_text("utf-8")
        self.assertEqual("", self.said(text))
        self.assertEqual(LINES.keys(), foreign.UNREAD.keys())
        for name, line in LINES.items():
            with self.subTest(name):
                self.assertIn(f"lines of {name}, too", self.said(f"{text}\n{line}\n"))

    def test_a_refusal_names_the_tool(self):
        for name, line in LINES.items():
            with self.subTest(name):
                error = self.assertRaises(
                    base.BenchmarkOutputError, recognition.recognise, f"{line}\n"
                )
                self.assertIn(f": it is of {name}; ", str(error))

    def test_a_tool_that_another_reader_reads_is_named(self):
        [path] = FIELD.glob("135-*.txt")
        text = pasted.decode(path.read_bytes())
        self.assertIn("netperf", self.said(text, "iperf2"))
        self.assertIn("iperf2", self.said(text, "netperf_rr"))

    def test_readers_of_one_program_are_no_others(self):
        for name in ("sysbench-cpu.txt", "sysbench-oltp.txt", "netperf-stream.txt"):
            text = (DATA / name).read_text("utf-8")
            self.assertEqual("", self.said(text), name)
        self.assertEqual("", self.said((DATA / "timerlat-hist.txt").read_text("utf-8")))

    def test_evaluate_says_it_beside_its_verdicts(self):
        [path] = FIELD.glob("149-*.txt")
        arm = outputs.ArmFiles("arm", ((str(path),),))
        [remark] = outputs.read("cyclictest", [arm]).remarks
        self.assertIn("stress-ng", remark)
