# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs7``."""

#: Case -> kind, and the metric of each of the answer's figures.
READ: dict[str, tuple[str, dict[str, str]]] = {
    "outputs7/191": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            "completion latency mean": "latency_mean",
            "completion latency p99": "latency_p99",
            "completion latency max": "latency_max",
        },
    ),
    "outputs7/194": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            "completion latency mean": "latency_mean",
            "completion latency p99": "latency_p99",
            "completion latency max": "latency_max",
        },
    ),
    "outputs7/200": (
        "iperf3",
        {
            "received": "throughput",
            "sent": "sent_throughput",
            "retransmissions": "retransmits",
        },
    ),
    "outputs7/202": (
        "iperf2",
        {
            "received": "throughput",
            "sent": "sent_throughput",
            "datagrams lost": "lost",
            "jitter": "jitter",
        },
    ),
    "outputs7/206": ("netperf", {"throughput": "throughput"}),
    "outputs7/207": (
        "sysbench_fileio",
        {
            "writes a second": "writes_per_second",
            "written": "write_throughput",
            "fsyncs a second": "fsyncs_per_second",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
        },
    ),
    "outputs7/209": (
        "cpu",
        {
            "events a second": "events_per_second",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
        },
    ),
    "outputs7/212": (
        "cyclictest",
        {
            "first: latency max": "run1_latency_max",
            "first: latency mean": "run1_latency_mean",
            "second: latency max": "run2_latency_max",
            "second: latency mean": "run2_latency_mean",
        },
    ),
    "outputs7/213": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency min": "latency_min",
            "latency max of thread 0": "latency_max_thread0",
        },
    ),
    "outputs7/214": ("hwlatdetect", {"latency max": "latency_max", "gaps": "gaps"}),
    "outputs7/217": ("himenobmtxp", {"MFLOPS": "mflops"}),
    "outputs7/219": ("dd", {"first run": "run1_throughput", "second run": "run2_throughput"}),
    # Of these the answer names the figures in words alone.
    "outputs7/195": ("fio", {}),
    "outputs7/199": ("packets", {}),
    "outputs7/204": ("netperf", {}),
    "outputs7/205": ("netperf", {}),
}
#: Cases of which no figure is judged.
SEVERAL = {f"outputs7/{at}" for at in (195, 205, 212, 213, 219)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs7/194": "few_syncs",
    "outputs7/199": "held_to_a_rate",
    "outputs7/204": "other_tools",
    "outputs7/205": "several_tests",
    "outputs7/207": "latency_of_all",
    "outputs7/212": "several_runs",
    "outputs7/219": "several_runs",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs7/191": ("block size, engine, depth", "version: "),
    "outputs7/195": ("IOPS and latencies: ",),
    "outputs7/199": ("39595 datagrams out of order",),
    "outputs7/205": ("tcp_stream_2: ", "cut off"),
    "outputs7/213": ("percentiles: ", "latency_mean: the threads' cycles are not known"),
    "outputs7/217": ("the score",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs7/191": {"pattern": "randwrite", "jobs": "10"},
    "outputs7/199": {"block size": "5000", "direction": "server to client", "seconds": "60"},
    "outputs7/202": {"protocol": "UDP", "datagram": "1470 bytes"},
    "outputs7/204": {"test": "TCP_STREAM", "seconds": "62.96"},
    "outputs7/207": {"pattern": "sequential rewrite", "block size": "16KiB", "threads": "1"},
    "outputs7/214": {"threshold": "10us", "seconds": "1800"},
    "outputs7/217": {"grid": "65 x 65 x 129", "loops": "200"},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs7/191": (16.3, 261.83),
    "outputs7/194": (7487.6, 7.4876),
    "outputs7/195": (733.47,),
    "outputs7/199": (937.0, 11.0),
    "outputs7/213": (27.5,),
    "outputs7/219": (920.0,),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs7/192": ("cut off", "'benchmark'"),
    "outputs7/193": ("'write_iops', run 2 of 2", "no result"),
    "outputs7/196": ("cut off", "'rand-readwrite'"),
    "outputs7/197": ("SCTP",),
    "outputs7/198": ("cut off: no whole line of the receiver",),
    "outputs7/201": ("its intervals end at 300 s", "iperf3"),
    "outputs7/203": ("reports of client and server of one test",),
    "outputs7/208": ("cut off at its beginning", "which test of sysbench"),
    "outputs7/210": ("single intervals alone", "the report at the end of the run is missing"),
    "outputs7/211": ("Failed to fsync file!", "Invalid argument"),
    "outputs7/215": ("3.00001e+06 latencies were counted, 786874 are in the histogram",),
    "outputs7/216": ("begins within a report", "a run of 8 copies follows"),
    "outputs7/218": ("28,7667 s' is no whole result of dd",),
    "outputs7/220": ("no benchmark reads this output",),
}
