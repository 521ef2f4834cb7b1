# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs2``, and what is said of each case."""


def _fio(way, prefix=""):
    """Return answer's name -> metric of one direction of fio."""
    return {
        f"{way} iops": f"{prefix}iops",
        f"{way} bandwidth": f"{prefix}bandwidth",
        f"{way} completion latency p99": f"{prefix}latency_p99",
        f"{way} completion latency mean": f"{prefix}latency_mean",
    }


#: Case -> kind, and the metric of each of the answer's figures.
READ = {
    "outputs2/31": ("fio", _fio("write")),
    "outputs2/32": ("fio", _fio("write")),
    "outputs2/33": ("fio", _fio("write")),
    "outputs2/34": (
        "fio",
        {
            **_fio("write"),
            "read iops (the phase that verifies)": "verify_read_iops",
            "read bandwidth (the phase that verifies)": "verify_read_bandwidth",
            "read completion latency p99 (the phase that verifies)": "verify_read_latency_p99",
        },
    ),
    "outputs2/35": ("fio", _fio("write")),
    "outputs2/36": ("fio", {**_fio("read", "read_"), **_fio("write", "write_")}),
    "outputs2/37": ("fio", _fio("read")),
    "outputs2/38": ("fio", _fio("read")),
    "outputs2/39": ("fio", _fio("write")),
    "outputs2/40": (
        "iperf3",
        {"sent throughput (client to server)": "sent_throughput", "retransmits": "retransmits"},
    ),
    "outputs2/41": (
        "packets",
        {
            "first test: received throughput (client to server)": "test1_throughput",
            "first test: jitter": "test1_jitter",
            "second test: sent throughput (server to client)": "test2_sent_throughput",
        },
    ),
    "outputs2/42": (
        "packets",
        {
            "sent throughput (client to server)": "sent_throughput",
            "jitter": "jitter",
            "lost": "lost_share",
        },
    ),
    "outputs2/43": (
        "packets",
        {
            "received throughput (server to client)": "throughput",
            "jitter": "jitter",
            "lost": "lost_share",
        },
    ),
    "outputs2/46": (
        "iperf2",
        {
            "sent throughput (client to server)": "client_to_server_throughput",
            "received throughput (server to client)": "server_to_client_throughput",
        },
    ),
    "outputs2/47": (
        "netperf",
        {
            "first run: transactions (each a connection)": "tcp_crr_1_transactions_per_second",
            "first run: latency mean": "tcp_crr_1_latency_mean",
            "second run: transactions (each a connection)": "tcp_crr_2_transactions_per_second",
            "second run: latency mean": "tcp_crr_2_latency_mean",
        },
    ),
    "outputs2/48": ("netperf", {"throughput (server to client)": "throughput"}),
    "outputs2/49": (
        "netperf",
        {
            "TCP_STREAM: throughput (client to server)": "tcp_stream_1_throughput",
            "TCP_STREAM of 8192 bytes: throughput (client to server)": "tcp_stream_2_throughput",
            "UDP_STREAM: received throughput": "udp_stream_throughput",
            "TCP_RR: transactions": "tcp_rr_transactions_per_second",
            "TCP_CRR: transactions (each a connection)": "tcp_crr_transactions_per_second",
        },
    ),
    "outputs2/50": ("sysbench_memory", {"memory throughput": "throughput"}),
    "outputs2/52": (
        "sysbench_fileio",
        {
            "reads": "reads_per_second",
            "writes": "writes_per_second",
            "read throughput": "read_throughput",
            "write throughput": "write_throughput",
            "latency p95": "latency_p95",
        },
    ),
    "outputs2/54": (
        "cyclictest",
        {
            "first run: latency max": "run1_latency_max",
            "first run: latency mean": "run1_latency_mean",
            "second run: latency max": "run2_latency_max",
            "second run: latency mean": "run2_latency_mean",
            "third run: latency max": "run3_latency_max",
            "third run: latency mean": "run3_latency_mean",
        },
    ),
    "outputs2/55": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency p99": "latency_p99",
            "latency p99.9": "latency_p999",
        },
    ),
    "outputs2/56": (
        "oslat",
        {
            "latency max": "latency_max",
            "latency max of CPU 1": "latency_max_cpu1",
            "latency max of CPU 2": "latency_max_cpu2",
        },
    ),
    "outputs2/57": ("unixbench", {}),
    "outputs2/58": ("tpcc_mysql", {"tpmC": "tpmc"}),
    "outputs2/59": ("dd", {"throughput": "throughput"}),
}
#: Figures of an answer that are no single number.
LEFT_OUT = {
    "outputs2/41": ("first test: lost",),
    "outputs2/55": ("latency mean: thread 0 and thread 1",),
}
#: Case -> how far a figure may be away where the answer allows it (a bin of a histogram).
TOLERANCE = {"outputs2/55": 1.0}
#: Cases of which no figure is judged: several tests or directions, and a test that was stopped.
SEVERAL = {f"outputs2/{at}" for at in (40, 41, 46, 47, 49, 54)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs2/33": "old_units",
    "outputs2/34": "verify_phase",
    "outputs2/35": "rate_not_reached",
    "outputs2/36": "several_directions",
    "outputs2/37": "old_units",
    "outputs2/40": "stopped",
    "outputs2/42": "rate_computed",
    "outputs2/43": "held_to_a_rate",
    "outputs2/56": "interruptions",
    "outputs2/57": "version_unknown",
    "outputs2/58": "constraints_failed",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs2/31": ("block size", "version"),
    "outputs2/37": ("block size", "version"),
    "outputs2/38": ("pattern", "block size", "single clients", "percentiles"),
    "outputs2/40": ("what the receiver counted",),
    "outputs2/41": ("test2: what the receiver counted",),
    "outputs2/42": ("receiver's own rate",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs2/31": {"jobs": "8", "depth": "256", "pattern": "randwrite", "direction": "write"},
    "outputs2/34": {"pattern": "randwrite", "block size": "4096B", "depth": "16"},
    "outputs2/37": {"depth": "16", "pattern": "randread"},
    "outputs2/40": {"protocol": "TCP", "direction": "client to server"},
    "outputs2/43": {"protocol": "UDP", "direction": "server to client"},
    "outputs2/48": {"direction": "server to client"},
    "outputs2/56": {"workload": "memmove", "priority": "SCHED_FIFO:1"},
}
#: Case -> values that no figure may have: sums of phases, shares of two tests, sums of directions.
NEVER = {
    "outputs2/33": (0.0, 8.64),
    "outputs2/34": (456_000.0, 1_866.4),
    "outputs2/40": (0.0,),
    "outputs2/41": (95.4, 0.0),
    "outputs2/46": (157.4,),
    "outputs2/50": (0.0, 18_411.1),
    "outputs2/52": (31_369.33, 13_758.96),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs2/44": ("SCTP",),
    "outputs2/45": ("70 s", "2 tests", "whole test is missing", "iperf -c"),
    "outputs2/51": ("threads and mutex", "cpu|memory|fileio|oltp"),
    "outputs2/53": ("cut off", "'avg'"),
    "outputs2/60": ("no benchmark reads", "fio", "sysbench", "cyclictest"),
}
