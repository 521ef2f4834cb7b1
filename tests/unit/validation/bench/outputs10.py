# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs10``."""


def _fio(answer: str, metric: str = "") -> dict[str, str]:
    """Return answer's name -> metric of the figures of one direction; prefixes with the space or ``_``."""
    latency = "completion latency"
    names = {
        "IOPS": "iops",
        "bandwidth": "bandwidth",
        f"{latency} mean": "latency_mean",
        f"{latency} p99": "latency_p99",
        f"{latency} max": "latency_max",
    }
    return {f"{answer}{name}": f"{metric}{of}" for name, of in names.items()}


_BOTH = {**_fio("read ", "read_"), **_fio("write ", "write_")}
_ALONE = {
    "read IOPS": "iops",
    "read bandwidth": "bandwidth",
    "completion latency mean": "latency_mean",
    "completion latency p99": "latency_p99",
    "completion latency max": "latency_max",
}
#: Case -> kind, and the metric of each of the answer's figures.
READ: dict[str, tuple[str, dict[str, str]]] = {
    "outputs10/281": ("fio", _ALONE),
    "outputs10/282": ("fio", {**_fio("write ", "run1_"), **_fio("read ", "run2_")}),
    "outputs10/283": ("fio", {**_fio("read ", "randread_"), **_fio("write ", "randwrite_")}),
    "outputs10/284": ("fio", _BOTH),
    "outputs10/286": ("fio", _BOTH),
    "outputs10/287": ("fio", _BOTH),
    "outputs10/288": ("fio", _ALONE),
    "outputs10/289": ("iperf3", {"rate sent": "sent_throughput", "rate received": "throughput"}),
    "outputs10/290": (
        "packets",
        {
            "rate received": "throughput",
            "rate sent": "sent_throughput",
            "jitter": "jitter",
            "datagrams lost": "lost",
            "lost share": "lost_share",
        },
    ),
    "outputs10/291": (
        "iperf3",
        {
            "rate sent by the client": "client_to_server_sent_throughput",
            "rate sent by the server": "server_to_client_sent_throughput",
            "retransmits": "client_to_server_retransmits",
        },
    ),
    "outputs10/292": ("iperf3", {"rate received": "throughput", "retransmits": "retransmits"}),
    "outputs10/293": (
        "iperf3",
        {
            "first run: rate sent by the client": "test1_client_to_server_sent_throughput",
            "first run: rate sent by the server": "test1_server_to_client_sent_throughput",
            "second run: rate sent by the client": "test2_client_to_server_sent_throughput",
            "second run: rate sent by the server": "test2_server_to_client_sent_throughput",
        },
    ),
    "outputs10/294": ("iperf2", {"rate sent": "throughput", "datagrams sent": "sent"}),
    "outputs10/295": ("iperf2", {"rate": "throughput"}),
    "outputs10/296": (
        "netperf",
        {
            "first run: transactions": "tcp_rr_1_transactions_per_second",
            "second run: transactions": "tcp_rr_2_transactions_per_second",
        },
    ),
    "outputs10/298": (
        "netperf_rr",
        {
            f"latency {name}": f"latency_{name}"
            for name in ("mean", "p50", "p90", "p99", "max", "min")
        },
    ),
    "outputs10/299": (
        "cpu",
        {
            "events per second": "events_per_second",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
        },
    ),
    "outputs10/300": (
        "sysbench_memory",
        {
            "rate": "throughput",
            "operations": "operations_per_second",
            "latency max": "latency_max",
        },
    ),
    "outputs10/302": (
        "sysbench_oltp",
        {
            "transactions": "transactions_per_second",
            "read/write requests": "requests_per_second",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
        },
    ),
    "outputs10/303": ("cyclictest", {"latency max": "latency_max", "latency min": "latency_min"}),
    "outputs10/304": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency min": "latency_min",
        },
    ),
    "outputs10/305": (
        "hwlatdetect",
        {"latency max": "latency_max", "samples above the threshold": "gaps"},
    ),
    "outputs10/306": (
        "unixbench",
        {"score with 1 copy": "copies1_score", "score with 4 copies": "copies4_score"},
    ),
    "outputs10/307": ("tpcc_mysql", {"TpmC": "tpmc"}),
    "outputs10/308": ("dd", {"rate": "throughput"}),
}
#: Figures of an answer that are shown in another form, or under one name for both directions.
LEFT_OUT = {
    "outputs10/290": ("datagrams",),
    "outputs10/291": ("rate of that received",),
    "outputs10/293": ("first run: rate of that received", "second run: rate of that received"),
}
#: Cases of which no figure is judged.
SEVERAL = {f"outputs10/{at}" for at in (282, 283, 291, 293, 295, 296, 298, 303, 304, 306)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs10/282": "several_runs",
    "outputs10/284": "page_cache",
    "outputs10/290": "rate_not_reached",
    "outputs10/292": "short",
    "outputs10/294": "no_server_report",
    "outputs10/295": "different_lengths",
    "outputs10/296": "several_tests",
    "outputs10/300": "latency_too_short",
    "outputs10/307": "constraints_failed",
    "outputs10/308": "page_cache",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs10/283": ("pattern, block size, engine", "version"),
    "outputs10/287": ("latencies of read", "gtod_reduce", "direct: "),
    "outputs10/289": ("-d (--debug)",),
    "outputs10/298": ("'throughput' (75.78): its unit is not in the output",),
    "outputs10/299": ("version, threads, largest number",),
    "outputs10/304": ("9914286 wake-ups, its total says 10000000",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs10/281": {"pattern": "randread", "depth": "64", "direct": "1"},
    "outputs10/284": {"pattern": "rw", "engine": "posixaio", "jobs": "2", "direct": "0"},
    "outputs10/286": {"pattern": "readwrite", "direct": "1", "sync": "1"},
    "outputs10/289": {"protocol": "TCP", "streams": "3", "seconds": "10", "version": "3.1.3"},
    "outputs10/294": {"protocol": "UDP", "streams": "8", "datagram": "1490 bytes"},
    "outputs10/295": {"protocol": "TCP", "streams": "4"},
    "outputs10/298": {"test": "TCP_RR"},
    "outputs10/302": {"threads": "256", "version": "0.5"},
    "outputs10/303": {"threads": "16", "priority": "80"},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs10/289": (-1.0, 9450.0, 3140.0),
    "outputs10/294": (3610.0,),
    "outputs10/298": (75.78,),
    "outputs10/304": (25.0,),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs10/285": ("error 84",),
    "outputs10/297": ("no banner of a test",),
    "outputs10/301": ("cut off",),
    "outputs10/309": ("it is of qperf",),
    "outputs10/310": ("not a form of tpcc-mysql's report",),
}
#: Cases whose lines do not say how many of them there are.
NO_END = {"outputs10/303"}
