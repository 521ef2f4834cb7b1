# SPDX-License-Identifier: Apache-2.0
"""All tools whose reports ``bench parse`` reads, and which this project does not run."""

from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.validation.bench import (
    base,
    iperf2,
    netperf_text,
    own_reports,
    sysbench_reports,
    unixbench,
)

TOOLS: Final[Sequence[type[base.Benchmark]]] = (
    iperf2.Iperf2,
    netperf_text.NetperfRequests,
    netperf_text.NetperfUdp,
    sysbench_reports.MemoryReport,
    sysbench_reports.FileIo,
    sysbench_reports.Sql,
    sysbench_reports.Several,
    own_reports.Himenobmtxp,
    own_reports.TpccMysql,
    own_reports.Dd,
    own_reports.Rtla,
    own_reports.OtherRtTests,
    unixbench.UnixBench6,
)
#: Program of a command line -> the kind that reads its output.
COMMANDS: Final[Mapping[str, str]] = {
    "fio": "fio",
    "iperf3": "iperf3",
    "iperf": "iperf2",
    "netperf": "netperf",
    "sysbench": "sysbench",
    "cyclictest": "cyclictest",
    "oslat": "oslat",
}
#: Tool whose output is not read -> a line that only it prints.
UNREAD: Final[Mapping[str, str]] = {
    "stress-ng": r"stress-ng(?:: [a-z]{4,5}:|, version )|info:[ ]+\[[0-9]{1,9}\] dispatching hogs:",
    "stress": r"stress: (?:info|dbug|FAIL): \[",
    "latmus": r"# libevl version: |latmus: ",
    "latency of Xenomai": r"RT[THDS]\|[ -]",
    "ping": r"--- \S{1,200} ping statistics ---",
    "ioping": r"--- .{1,200} ioping statistics ---",
    "mlc": r"Intel\(R\) Memory Latency Checker",
    "STREAM": r"STREAM version \$Revision|This system uses [0-9] bytes per (?:DOUBLE|array)",
    "perf stat": r"Performance counter stats for",
    "perf bench": r"# Running '?[a-z-]{2,20}/[a-z-]{2,20}'? benchmark",
    "HammerDB": r"(?:.{0,200}\bHammerDB\b|Vuser [0-9]{1,5}:)",
    "pgbench": r"pgbench \([0-9]|number of transactions actually processed:",
    "sockperf": r"sockperf: ",
    "qperf": r"(?:tcp|udp|sctp|rc|ud)_(?:bw|lat):$",
    "wrk": r"Running [0-9]{1,6}[smh] test @ ",
    "redis-benchmark": r"====== [A-Z]{3,20}.{0,80} ======$|\"test\",\"rps\",",
    "CoreMark": r"CoreMark Size ",
    "nuttcp": r"[ ]*[0-9.]{1,12} MB /[ ]+[0-9.]{1,9} sec =",
    "memtier_benchmark": r"ALL STATS$",
    "DiskSpd": r".{0,200}\bdiskspd\b",
    "iozone": r"[ \t]*Iozone: Performance Test of File I/O",
    "hackbench": r"Running in (?:process|threaded) mode with [0-9]{1,6} groups",
}
#: What follows the name of a program where another is meant: iperf3 prints 'iperf 3.12' and 'iperf Done'.
ANOTHER: Final = r"[A-Za-z0-9_-]| 3\.| Done"
#: For a person whose output has no marks of any of them.
READ: Final = (
    "fio, iperf3, iperf 2, netperf, sysbench, cyclictest, oslat, hwlatdetect, rtla timerlat hist,"
    " UnixBench, himenobmtxp, tpcc-mysql and dd"
)
