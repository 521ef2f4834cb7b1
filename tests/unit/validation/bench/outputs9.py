# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs9``."""


def _fio(way: str, name: str, metric: str) -> dict[str, str]:
    """Return answer's name -> metric of one direction of a run or group of fio.

    :param name: of the run behind each figure; :param metric: the same before each metric.
    """
    names = {
        f"{way} IOPS": "iops",
        f"{way} bandwidth": "bandwidth",
        "completion latency mean": "latency_mean",
        "completion latency p99": "latency_p99",
    }
    return {f"{answer} ({name})": f"{metric}_{of}" for answer, of in names.items()}


_BOTH = {
    "read IOPS": "read_iops",
    "read bandwidth": "read_bandwidth",
    "write IOPS": "write_iops",
    "write bandwidth": "write_bandwidth",
}
_IPERF3 = {
    "throughput (received)": "throughput",
    "throughput (sent)": "sent_throughput",
    "retransmissions": "retransmits",
}
_CYCLICTEST = {f"latency {name}": f"latency_{name}" for name in ("max", "mean", "min")}
_SYSBENCH = {f"latency {name}": f"latency_{name}" for name in ("mean", "p95", "p99", "max")}
#: Case -> kind, and the metric of each of the answer's figures.
READ: dict[str, tuple[str, dict[str, str]]] = {
    "outputs9/251": ("fio", _BOTH),
    "outputs9/252": (
        "fio",
        {**_fio("read", "first run", "run1"), **_fio("read", "second run", "run2")},
    ),
    "outputs9/253": (
        "fio",
        {
            **_fio("read", "seq-read", "seq_read"),
            **_fio("read", "rand-read", "rand_read"),
            **_fio("write", "seq-write", "seq_write"),
            **_fio("write", "rand-write", "rand_write"),
        },
    ),
    "outputs9/255": (
        "fio",
        {
            **_fio("write", "first", "run1"),
            **_fio("write", "second", "run2"),
            **_fio("write", "third", "run3"),
        },
    ),
    "outputs9/256": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            **{
                f"completion latency {name}": f"latency_{name}"
                for name in ("mean", "p50", "p99", "max")
            },
        },
    ),
    "outputs9/257": ("fio", _BOTH),
    "outputs9/258": ("iperf3", _IPERF3),
    "outputs9/259": ("iperf3", _IPERF3),
    "outputs9/260": (
        "packets",
        {
            "throughput (received)": "throughput",
            "throughput (sent)": "sent_throughput",
            "lost datagrams": "lost",
            "loss": "lost_share",
            "jitter": "jitter",
        },
    ),
    "outputs9/261": (
        "iperf3",
        {
            "throughput client to server (received)": "client_to_server_throughput",
            "throughput server to client (received)": "server_to_client_throughput",
            "retransmissions client to server": "client_to_server_retransmits",
            "retransmissions server to client": "server_to_client_retransmits",
        },
    ),
    "outputs9/262": ("iperf3", _IPERF3),
    "outputs9/264": ("iperf2", {"throughput": "throughput"}),
    "outputs9/265": ("iperf2", {"throughput (sent)": "sent_throughput"}),
    "outputs9/266": (
        "netperf",
        {
            "netperf TCP_STREAM throughput": "tcp_stream_throughput",
            "netperf TCP_RR rate": "tcp_rr_transactions_per_second",
        },
    ),
    "outputs9/267": (
        "netperf_rr",
        {
            "transaction rate": "transactions_per_second",
            **{f"latency {name}": f"latency_{name}" for name in ("mean", "p99", "min", "max")},
        },
    ),
    "outputs9/268": ("cpu", {"events": "events_per_second", **_SYSBENCH}),
    "outputs9/269": (
        "sysbench_memory",
        {"memory throughput": "throughput", "operations": "operations_per_second", **_SYSBENCH},
    ),
    "outputs9/270": (
        "sysbench_fileio",
        {
            "reads": "reads_per_second",
            "writes": "writes_per_second",
            "syncs": "fsyncs_per_second",
            "read throughput": "read_throughput",
            "write throughput": "write_throughput",
            **_SYSBENCH,
        },
    ),
    "outputs9/271": (
        "oltp",
        {
            "transactions": "transactions_per_second",
            "queries": "queries_per_second",
            **_SYSBENCH,
        },
    ),
    "outputs9/272": ("cyclictest", _CYCLICTEST),
    "outputs9/273": ("cyclictest", _CYCLICTEST),
    "outputs9/274": ("cyclictest", _CYCLICTEST),
    "outputs9/275": (
        "unixbench6",
        {
            "index score (1 copy)": "copies1_score",
            "index score (32 copies)": "copies32_score",
            "Dhrystone 2 (1 copy)": "copies1_dhrystone",
            "Execl Throughput (32 copies)": "copies32_exec",
        },
    ),
    "outputs9/276": ("tpcc_mysql", {"TpmC": "tpmc"}),
    "outputs9/277": (
        "dd",
        {
            f"throughput ({name})": f"run{at}_throughput"
            for at, name in enumerate(("first", "second", "third", "fourth"), start=1)
        },
    ),
}
#: Figures of an answer that are shown in another form, or of a tool that is named alone.
LEFT_OUT = {
    "outputs9/266": ("iperf 2 throughput",),
    "outputs9/271": ("ignored errors",),
}
#: Cases of which no figure is judged.
SEVERAL = {f"outputs9/{at}" for at in (252, 253, 255, 261, 264, 265, 266, 272, 273, 274, 275, 277)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs9/252": "several_runs",
    "outputs9/253": "several_groups",
    "outputs9/255": "several_runs",
    "outputs9/256": "own_warnings",
    "outputs9/264": "different_lengths",
    "outputs9/265": "counted_twice",
    "outputs9/266": "other_tools",
    "outputs9/270": "page_cache",
    "outputs9/273": "other_tools",
    "outputs9/274": "own_warnings",
    "outputs9/276": "constraints_failed",
    "outputs9/277": "several_runs",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs9/251": ("completion latency of read: its mean of 5,386,840 µs is above",),
    "outputs9/252": ("run1: percentiles of the line", "which is cut off or wrapped"),
    "outputs9/257": ("latencies of read: the job did not take them",),
    "outputs9/265": ("throughput, datagrams lost and jitter", "2478283 datagrams out of order"),
    "outputs9/273": ("percentiles: the output has no histogram",),
    "outputs9/276": ("mean latency of delivery: none was finished",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs9/256": {"depth": "1", "depth asked for": "16"},
    "outputs9/265": {"protocol": "UDP", "counted by": "the client, what it sent"},
    "outputs9/267": {"test": "TCP_RR", "transactions in flight": "3", "nodelay": "yes"},
    "outputs9/270": {"open flags": "(none)", "pattern": "random r/w", "version": "1.0.17"},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs9/265": (3030.0, 1020.0, 0.0),
    "outputs9/273": (20.997,),
    "outputs9/276": (6722.0,),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs9/254": ("terse form", "--output-format=json"),
    "outputs9/263": ("the server has terminated",),
    "outputs9/278": ("no benchmark reads this output", "are read"),
    "outputs9/279": ("no benchmark reads this output", "are read"),
    "outputs9/280": ("it is of pgbench", "are read"),
}
#: Cases whose lines do not say how many of them there are.
NO_END = {"outputs9/259", "outputs9/261", "outputs9/272"}
