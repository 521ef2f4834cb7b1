# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs12``."""

_LATENCIES = {
    "completion latency mean": "latency_mean",
    "completion latency p99": "latency_p99",
    "completion latency max": "latency_max",
}


def _fio(job: str, way: str) -> dict[str, str]:
    """Return answer's name -> metric of the figures of one of several jobs, which goes one way."""
    metric = job.replace("-", "_")
    names = {
        f"{way} IOPS": "iops",
        f"{way} bandwidth": "bandwidth",
        "completion latency mean": "latency_mean",
        "completion latency p99": "latency_p99",
    }
    return {f"{job} {name}": f"{metric}_{of}" for name, of in names.items()}


def _both_ways() -> dict[str, str]:
    """Return answer's name -> metric of the figures of a mixed job."""
    names = {"IOPS": "iops", "bandwidth": "bandwidth", **_LATENCIES}
    figures = {}
    for way in ("read", "write"):
        for name, metric in names.items():
            figures[f"{way} {name}"] = f"{way}_{metric}"
    return figures


def _requests(number: int, of: str) -> dict[str, str]:
    """Return answer's name -> metric of one of several tests of TCP_RR."""
    test = f"tcp_rr_{number}"
    return {
        f"transactions of the {of}": f"{test}_transactions_per_second",
        f"latency mean of the {of}": f"{test}_latency_mean",
        f"latency min of the {of}": f"{test}_latency_min",
        f"latency max of the {of}": f"{test}_latency_max",
    }


_SYSBENCH = {
    "latency mean": "latency_mean",
    "latency p95": "latency_p95",
    "latency max": "latency_max",
}
_UDP = {"jitter": "jitter", "lost": "lost"}
_TO_SERVER = "client_to_server"
_TO_CLIENT = "server_to_client"
#: Case -> kind, and the metric of each of the answer's figures.
READ: dict[str, tuple[str, dict[str, str]]] = {
    "outputs12/341": ("fio", {"read IOPS": "iops", "read bandwidth": "bandwidth", **_LATENCIES}),
    "outputs12/342": (
        "fio",
        {
            **_fio("Seq-Read", "read"),
            **_fio("Seq-Write", "write"),
            **_fio("Rand-Read-512K", "read"),
            **_fio("Rand-Write-512K", "write"),
            **_fio("Rand-Read-4K", "read"),
            **_fio("Rand-Write-4K", "write"),
            **_fio("Rand-Read-4K-QD32", "read"),
            **_fio("Rand-Write-4K-QD32", "write"),
        },
    ),
    "outputs12/343": ("fio", _both_ways()),
    "outputs12/344": ("fio", _both_ways()),
    "outputs12/345": (
        "fio",
        {
            **_fio("read4k-rand", "read"),
            **_fio("read64k-seq", "read"),
            **_fio("write4k-rand", "write"),
            **_fio("write64k-seq", "write"),
        },
    ),
    "outputs12/347": (
        "iperf3",
        {
            "rate received": "throughput",
            "rate sent": "sent_throughput",
            "retransmits": "retransmits",
        },
    ),
    "outputs12/348": ("packets", {"rate received": "throughput", **_UDP}),
    "outputs12/349": (
        "iperf3",
        {
            "rate sent, received": f"{_TO_SERVER}_throughput",
            "retransmits, sent": f"{_TO_SERVER}_retransmits",
            "rate of the reverse, received": f"{_TO_CLIENT}_throughput",
            "retransmits of the reverse": f"{_TO_CLIENT}_retransmits",
        },
    ),
    "outputs12/350": (
        "iperf3",
        {
            "rate of the first (reverse), received": "test1_throughput",
            "retransmits of the first": "test1_retransmits",
            "rate of the second (sent by the client), received": "test2_throughput",
            "retransmits of the second": "test2_retransmits",
        },
    ),
    "outputs12/351": (
        "packets",
        {
            "rate received": "throughput",
            "rate sent": "sent_throughput",
            "lost share": "lost_share",
            **_UDP,
        },
    ),
    "outputs12/355": ("netperf", {"rate": "throughput"}),
    "outputs12/356": (
        "netperf",
        {**_requests(1, "first"), **_requests(2, "second"), **_requests(3, "third")},
    ),
    "outputs12/357": (
        "netperf_udp",
        {"rate received": "throughput", "rate sent": "sent_throughput"},
    ),
    "outputs12/358": ("cpu", {"events per second": "events_per_second", **_SYSBENCH}),
    "outputs12/360": (
        "sysbench_fileio",
        {
            "reads": "reads_per_second",
            "writes": "writes_per_second",
            "syncs": "fsyncs_per_second",
            "read bandwidth": "read_throughput",
            "write bandwidth": "write_throughput",
            **_SYSBENCH,
        },
    ),
    "outputs12/361": (
        "sysbench_oltp",
        {
            "transactions": "transactions_per_second",
            "queries": "queries_per_second",
            **_SYSBENCH,
        },
    ),
    "outputs12/362": ("cyclictest", {"latency max": "latency_max", "latency min": "latency_min"}),
    "outputs12/363": ("cyclictest", {"latency max": "latency_max", "latency min": "latency_min"}),
    "outputs12/364": ("packets", {"rate": "sent_throughput", "lost": "lost"}),
    "outputs12/365": (
        "unixbench",
        {"score of one copy": "copies1_score", "score of 4 copies": "copies4_score"},
    ),
    "outputs12/367": ("tpcc_mysql", {"TpmC": "tpmc"}),
    "outputs12/368": (
        "dd",
        {
            "rate of the first (479.65 by bytes and time)": "run1_throughput",
            "rate of the second": "run2_throughput",
        },
    ),
}
#: Figures of an answer that are shown in another form, or need not be shown.
LEFT_OUT = {
    "outputs12/342": ("Rand-Write-4K-QD32 write bandwidth (20.99 by bytes and time)",),
    "outputs12/348": ("datagrams",),
    "outputs12/363": (
        "latency mean (5 as printed, 5.35 by the histogram)",
        "latency p99 by the histogram, if shown",
    ),
    "outputs12/364": ("datagrams",),
}
#: Cases of which no figure is judged.
SEVERAL = {f"outputs12/{at}" for at in (342, 345, 349, 350, 356, 362, 365, 368)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs12/344": "stopped",
    "outputs12/360": "page_cache",
    "outputs12/367": "constraints_failed",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs12/361": ("version, threads",),
    "outputs12/364": ("are more than the test took (10 s)",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs12/341": {"pattern": "read", "block size": "1024KiB", "jobs": "4", "depth": "1"},
    "outputs12/343": {"pattern": "randrw", "block size": "4096B", "jobs": "4"},
    "outputs12/344": {
        "one of its jobs": "pattern rw, block size 4k, depth 16, jobs 1, engine libaio, size 1gb",
        "direct": "1",
        "seconds asked for": "300",
        "version": "fio-3.33",
    },
    "outputs12/348": {"protocol": "UDP", "direction": "client to server"},
    "outputs12/355": {"test": "TCP_MAERTS", "direction": "server to client"},
    "outputs12/357": {"protocol": "UDP", "message": "65507 bytes"},
    "outputs12/358": {"threads": "1", "largest number": "10000"},
    "outputs12/360": {"block size": "16KiB", "total size": "150GiB"},
    "outputs12/362": {"threads": "4", "priority": "80", "interval in µs": "250"},
    "outputs12/367": {"warehouses": "10", "connections": "10", "seconds": "360"},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs12/341": (36091.93 * 1000,),
    "outputs12/360": (1006.63,),
    "outputs12/364": (3912702.089,),
    "outputs12/368": (481.0,),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs12/346": ("cut off", "4 of 48 jobs are reported"),
    "outputs12/352": ("cut off", "no line of the receiver"),
    "outputs12/353": ("2 tests of iperf 2",),
    "outputs12/354": ("2 tests of iperf 2",),
    "outputs12/359": ("2 reports of sysbench",),
    "outputs12/366": ("tests of TCP and of UDP",),
    "outputs12/369": ("names fio, whose own output",),
    "outputs12/370": ("lines of several tools",),
}
#: Cases whose lines do not say how many of them there are.
NO_END = {"outputs12/362"}
