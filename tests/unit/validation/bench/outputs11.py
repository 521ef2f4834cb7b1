# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs11``."""


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
_LATENCIES = {
    "completion latency mean": "latency_mean",
    "completion latency p99": "latency_p99",
    "completion latency max": "latency_max",
    "total latency mean": "total_latency_mean",
}
_READS = {"read IOPS": "iops", "read bandwidth": "bandwidth", **_LATENCIES}
_WRITES = {"write IOPS": "iops", "write bandwidth": "bandwidth", **_LATENCIES}
_IPERF3 = {
    "rate received": "throughput",
    "rate sent": "sent_throughput",
    "retransmits": "retransmits",
}
_SYSBENCH = {
    "latency mean": "latency_mean",
    "latency p95": "latency_p95",
    "latency max": "latency_max",
}
_CYCLICTEST = {
    "latency max": "latency_max",
    "latency mean": "latency_mean",
    "latency min": "latency_min",
}
_TO_SERVER = "client_to_server"
_TO_CLIENT = "server_to_client"
#: Case -> kind, and the metric of each of the answer's figures.
READ: dict[str, tuple[str, dict[str, str]]] = {
    "outputs11/311": ("fio", _BOTH),
    "outputs11/312": ("fio", _READS),
    "outputs11/313": ("fio", _BOTH),
    "outputs11/315": ("fio", _WRITES),
    "outputs11/316": ("fio", _WRITES),
    "outputs11/317": ("fio", _BOTH),
    "outputs11/318": ("iperf3", _IPERF3),
    "outputs11/319": (
        "packets",
        {
            "rate received": "throughput",
            "jitter": "jitter",
            "lost datagrams": "lost",
            "loss": "lost_share",
        },
    ),
    "outputs11/320": (
        "iperf3",
        {
            "rate received (client to server)": f"{_TO_SERVER}_throughput",
            "rate received (server to client)": f"{_TO_CLIENT}_throughput",
            "retransmits (client to server)": f"{_TO_SERVER}_retransmits",
            "retransmits (server to client)": f"{_TO_CLIENT}_retransmits",
        },
    ),
    "outputs11/321": ("iperf3", _IPERF3),
    "outputs11/322": ("iperf3", _IPERF3),
    "outputs11/323": ("iperf2", {"rate": "throughput"}),
    "outputs11/324": (
        "iperf2",
        {
            "rate received": "throughput",
            "rate sent": "sent_throughput",
            "jitter": "jitter",
            "lost datagrams": "lost",
        },
    ),
    "outputs11/325": (
        "netperf",
        {"throughput": "throughput", "throughput, if in bits": "throughput"},
    ),
    "outputs11/326": (
        "netperf_rr",
        {
            "transaction rate": "transactions_per_second",
            "latency mean": "latency_mean",
            "latency p99": "latency_p99",
            "latency max": "latency_max",
        },
    ),
    "outputs11/327": (
        "netperf_udp",
        {
            "throughput received": "throughput",
            "throughput sent": "sent_throughput",
            "throughput received, if in bits": "throughput",
        },
    ),
    "outputs11/328": ("cpu", {"events per second": "events_per_second", **_SYSBENCH}),
    "outputs11/329": (
        "sysbench_memory",
        {
            "throughput": "throughput",
            "operations": "operations_per_second",
            "latency max": "latency_max",
        },
    ),
    "outputs11/330": (
        "sysbench_fileio",
        {
            "reads": "reads_per_second",
            "writes": "writes_per_second",
            "syncs": "fsyncs_per_second",
            "throughput read": "read_throughput",
            "throughput written": "write_throughput",
            **_SYSBENCH,
        },
    ),
    "outputs11/331": (
        "oltp",
        {
            "transactions": "transactions_per_second",
            "queries": "queries_per_second",
            **_SYSBENCH,
        },
    ),
    "outputs11/332": ("cyclictest", _CYCLICTEST),
    "outputs11/333": ("cyclictest", _CYCLICTEST),
    "outputs11/335": (
        "unixbench",
        {"score with 1 copy": "copies1_score", "score with 4 copies": "copies4_score"},
    ),
    "outputs11/336": ("tpcc_mysql", {"TpmC": "tpmc"}),
    "outputs11/337": ("dd", {"rate": "throughput"}),
}
#: Figures of an answer that are shown in another form: those that arrived, and those that were lost.
LEFT_OUT = {
    "outputs11/319": ("datagrams",),
    "outputs11/324": ("datagrams",),
}
#: Cases of which no figure is judged.
SEVERAL = {f"outputs11/{at}" for at in (320, 332, 333, 335)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs11/313": "page_cache",
    "outputs11/326": "no_banner",
    "outputs11/329": "latency_too_short",
    "outputs11/332": "own_warnings",
    "outputs11/336": "constraints_failed",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs11/312": ("direct: ",),
    "outputs11/316": ("fio's normal output beside the JSON",),
    "outputs11/325": ("netperf printed -1289.93 %", "netperf printed -5299.89 %"),
    "outputs11/327": ("CPU utilisation",),
    "outputs11/332": ("percentiles",),
    "outputs11/333": ("percentiles",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs11/311": {"pattern": "randrw", "depth": "256", "jobs": "4", "engine": "io_uring"},
    "outputs11/313": {"depth": "1", "depth asked for": "64", "direct": "0"},
    "outputs11/315": {"pattern": "write", "block size": "4M", "jobs": "30"},
    "outputs11/316": {"pattern": "randwrite", "depth": "8", "direct": "1"},
    "outputs11/317": {"pattern": "rw", "jobs": "30"},
    "outputs11/319": {"protocol": "UDP", "direction": "server to client"},
    "outputs11/321": {"protocol": "TCP", "streams": "5"},
    "outputs11/322": {"omitted seconds": "3", "version": "iperf 3.9"},
    "outputs11/324": {"protocol": "UDP", "datagram": "1470 bytes"},
    "outputs11/326": {"test": "TCP_RR", "seconds asked for": "30"},
    "outputs11/328": {"threads": "1", "largest number": "10000"},
    "outputs11/330": {"pattern": "random r/w", "open flags": "directio"},
    "outputs11/333": {"threads": "8", "priority": "99"},
    "outputs11/336": {"warehouses": "10", "connections": "32", "seconds": "300"},
    "outputs11/337": {"bytes": "1073741824"},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs11/311": (1336.87, 1344.1),
    "outputs11/313": (7.3888, 8.3516),
    "outputs11/316": (1795.9,),
    "outputs11/320": (7720.0,),
    "outputs11/321": (257.0, 258.0),
    "outputs11/322": (2.1,),
    "outputs11/325": (157.72, 1261.76, -1289.93, -5299.89),
    "outputs11/327": (74.3, 74.7, -2879.89),
    "outputs11/331": (685.03,),
    "outputs11/333": (39242.0,),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs11/314": ("cut off", "no line 'issued'"),
    "outputs11/334": ("rtla timerlat top is not read",),
    "outputs11/338": ("it is of iozone", "are read"),
    "outputs11/339": ("no benchmark reads this output", "are read"),
    "outputs11/340": ("it is of stress-ng", "are read"),
}
#: Cases whose lines do not say how many of them there are.
NO_END: set[str] = set()
