# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs6``."""

#: Case -> kind, and the metric of each of the answer's figures.
READ: dict[str, tuple[str, dict[str, str]]] = {
    "outputs6/153": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            "completion latency mean": "latency_mean",
            "sync latency mean": "sync_latency_mean",
            "sync latency p99": "sync_latency_p99",
            "sync latency max": "sync_latency_max",
        },
    ),
    "outputs6/155": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            "completion latency mean": "latency_mean",
            "completion latency p99": "latency_p99",
            "completion latency max": "latency_max",
            "sync latency mean": "sync_latency_mean",
            "sync latency p99": "sync_latency_p99",
        },
    ),
    "outputs6/157": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            "completion latency mean": "latency_mean",
            "completion latency p99": "latency_p99",
            "completion latency max": "latency_max",
        },
    ),
    "outputs6/158": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            "completion latency mean": "latency_mean",
            "completion latency p99": "latency_p99",
        },
    ),
    "outputs6/159": (
        "packets",
        {"rate sent": "sent_throughput", "datagrams lost": "lost"},
    ),
    "outputs6/160": (
        "packets",
        {
            "rate sent": "sent_throughput",
            "rate received": "throughput",
            "datagrams lost": "lost",
            "jitter": "jitter",
        },
    ),
    "outputs6/161": (
        "iperf3",
        {
            "client to server received": "client_to_server_throughput",
            "server to client received": "server_to_client_throughput",
            "server to client sent": "server_to_client_sent_throughput",
        },
    ),
    "outputs6/162": (
        "packets",
        {"rate": "sent_throughput", "datagrams lost": "lost", "jitter": "jitter"},
    ),
    "outputs6/165": (
        "iperf2",
        {"rate": "throughput", "retries": "retransmits"},
    ),
    "outputs6/168": (
        "netperf_rr",
        {"transactions a second": "transactions_per_second"},
    ),
    "outputs6/169": (
        "netperf_udp",
        {"rate received": "throughput", "rate sent": "sent_throughput", "messages lost": "lost"},
    ),
    "outputs6/170": (
        "netperf_udp",
        {
            "rate received": "throughput",
            "rate sent": "sent_throughput",
            "messages lost": "lost",
            "share lost": "lost_share",
        },
    ),
    "outputs6/171": (
        "netperf_rr",
        {
            "transactions a second": "transactions_per_second",
            "latency p50": "latency_p50",
            "latency p99": "latency_p99",
            "latency max": "latency_max",
        },
    ),
    "outputs6/175": (
        "sysbench_fileio",
        {
            "writes a second": "writes_per_second",
            "written": "write_throughput",
            "fsyncs a second": "fsyncs_per_second",
            "latency p99": "latency_p99",
            "latency max": "latency_max",
        },
    ),
    "outputs6/176": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency min": "latency_min",
        },
    ),
    "outputs6/177": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency min": "latency_min",
        },
    ),
    "outputs6/178": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency min": "latency_min",
        },
    ),
    "outputs6/179": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency min": "latency_min",
            "latency max of thread 0": "latency_max_thread0",
        },
    ),
    "outputs6/180": (
        "oslat",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency max of core 5": "latency_max_cpu5",
        },
    ),
    "outputs6/184": (
        "hwlatdetect",
        {"latency max": "latency_max", "gaps": "gaps"},
    ),
    "outputs6/186": (
        "himenobmtxp",
        {"MFLOPS": "mflops"},
    ),
    "outputs6/187": (
        "tpcc_mysql",
        {"TpmC": "tpmc", "new order latency mean": "new_order_latency_mean"},
    ),
    "outputs6/188": (
        "dd",
        {"first run": "run1_throughput", "second run": "run2_throughput"},
    ),
    "outputs6/189": (
        "dd",
        {"rate": "throughput"},
    ),
}
#: Figures of an answer that are left out with a reason, or that have another unit.
LEFT_OUT = {"outputs6/159": ("jitter",), "outputs6/169": ("messages received",)}
#: Cases of which no figure is judged.
SEVERAL = {f"outputs6/{at}" for at in (161, 176, 177, 178, 179, 188)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs6/153": "synchronised",
    "outputs6/158": "page_cache",
    "outputs6/161": "both_directions",
    "outputs6/178": "beyond_histogram",
    "outputs6/187": "constraints_failed",
    "outputs6/188": "several_runs",
    "outputs6/189": "page_cache",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs6/157": ("fio's normal output beside the JSON",),
    "outputs6/159": ("jitter: 28488 ms are more than the test took",),
    "outputs6/162": ("1563 datagrams out of order",),
    "outputs6/165": ("NetPwr", "Cwnd/RTT"),
    "outputs6/169": ("CPU utilisation", "errors of sends (0)"),
    "outputs6/171": ("'throughput confidence width (%)'",),
    "outputs6/175": ("version, threads, pattern, block size",),
    "outputs6/176": ("percentiles: ", "entries are missing"),
    "outputs6/178": ("percentiles: ", "lines are missing"),
    "outputs6/179": ("percentiles: the output has no histogram",),
    "outputs6/184": ("counts of SMIs",),
    "outputs6/186": ("the rehearsal, the score",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs6/153": {"pattern": "write", "block size": "2300B", "version": "3.16"},
    "outputs6/157": {"pattern": "randwrite", "block size": "4096B", "engine": "libaio"},
    "outputs6/158": {"depth": "1", "depth asked for": "4", "seconds": "0.598"},
    "outputs6/160": {"protocol": "UDP", "direction": "server to client", "seconds": "60"},
    "outputs6/169": {"message": "65507 bytes", "seconds": "10.00"},
    "outputs6/180": {"cpus": "5,6,7,8,9,10,11", "version": "1.10", "seconds": "10.003"},
    "outputs6/186": {"processes": "2 x 2 x 2", "loops": "50"},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs6/153": (5729.7,),
    "outputs6/169": (82.0, -4744.91),
    "outputs6/178": (99.0,),
    "outputs6/184": (46.0,),
    "outputs6/186": (16116.972, 29.856),
    "outputs6/189": (44.9,),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs6/151": ("cut off", "'generic_job_name'"),
    "outputs6/152": ("cut off", "'Rand-Write-4K'"),
    "outputs6/154": ("no line of a finished job", "a part of a report"),
    "outputs6/156": ("cut off: it ends within the JSON, in line 52", "give all of it"),
    "outputs6/163": ("unable to connect to server: No route to host",),
    "outputs6/164": ("the server is busy running a test",),
    "outputs6/166": ("the server's report has no rate", "[ 7]"),
    "outputs6/167": ("2 tests of iperf 2",),
    "outputs6/172": ("cut off at its beginning", "which test of sysbench"),
    "outputs6/173": ("a report of mutex is not read",),
    "outputs6/174": ("0 events", "nothing was measured"),
    "outputs6/181": ("no row 'Core'", "oslat"),
    "outputs6/182": ("rtla osnoise top is not read",),
    "outputs6/183": ("rtla timerlat top is not read",),
    "outputs6/185": ("2 reports",),
    "outputs6/190": ("it is of sockperf",),
}
