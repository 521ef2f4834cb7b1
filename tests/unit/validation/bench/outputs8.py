# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs8``."""

#: Case -> kind, and the metric of each of the answer's figures.
READ: dict[str, tuple[str, dict[str, str]]] = {
    "outputs8/229": (
        "iperf3",
        {"rate sent": "test1_sent_throughput", "retransmits": "test1_retransmits"},
    ),
    "outputs8/232": ("packets", {"rate received": "throughput", "jitter": "jitter"}),
    "outputs8/237": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency p99": "latency_p99",
        },
    ),
    "outputs8/240": (
        "netperf",
        {
            "rate received": "udp_stream_1_throughput",
            "rate sent": "udp_stream_1_sent_throughput",
        },
    ),
    "outputs8/241": (
        "netperf_rr",
        {
            "transactions": "transactions_per_second",
            "latency mean": "latency_mean",
            "latency p99": "latency_p99",
            "latency max": "latency_max",
        },
    ),
    "outputs8/242": (
        "sysbench_fileio",
        {
            "reads": "reads_per_second",
            "writes": "writes_per_second",
            "syncs": "fsyncs_per_second",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
        },
    ),
    "outputs8/243": (
        "sysbench_memory",
        {"rate": "throughput", "latency max": "latency_max"},
    ),
    "outputs8/246": ("dd", {}),
    "outputs8/250": (
        "cyclictest",
        {"latency max": "latency_max", "latency mean": "latency_mean"},
    ),
}
#: Case -> how far a figure may be from the answer's: a bucket has a width of 1 µs.
TOLERANCE = {"outputs8/237": 1.0}
#: Cases of which no figure is judged.
SEVERAL = {f"outputs8/{at}" for at in (229, 232, 240, 246, 250)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs8/240": "several_tests",
    "outputs8/242": "page_cache",
    "outputs8/243": "short",
    "outputs8/246": "page_cache",
    "outputs8/250": "other_tools",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs8/232": (
        "lost and received: the count of all is at its end (2147483647)",
        "1338478610 datagrams out of order",
    ),
    "outputs8/240": ("udp_stream_2: ", "Message too long"),
    "outputs8/250": ("percentiles: the output has no histogram",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs8/232": {"protocol": "UDP", "seconds": "86400"},
    "outputs8/242": {"open flags": "(none)", "pattern": "random r/w"},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs8/232": (24855.1, 2147483.6),
}
#: Case -> what the refusal says.
REFUSED = {
    # The answers of 221, 222, 224 and 225 wanted figures, or another reason beside this one.
    "outputs8/221": ("cut off", "'Max throughput'"),
    "outputs8/222": ("cut off", "'Max throughput'"),
    "outputs8/223": ("cut off", "'iops-test-job'"),
    "outputs8/224": ("cut off", "'job1'"),
    "outputs8/225": ("cut off", "'fio-rand-write'"),
    "outputs8/227": ("cut off", "'test'"),
    "outputs8/228": ("the JSON has no beginning; give all of it",),
    "outputs8/230": ("no line of the receiver", "its intervals end at 4 s"),
    "outputs8/234": ("several tests", "keep one"),
    "outputs8/236": ("cut off", "give all of it"),
    "outputs8/238": ("cut off", "a test that is not read"),
    "outputs8/239": ("several outputs of cyclictest", "keep one"),
    "outputs8/245": ("no benchmark reads this output", "netperf"),
    "outputs8/247": ("no result of dd",),
    "outputs8/248": ("2 reports", "80 copies"),
    "outputs8/249": ("cut off", "'Process Creation' is missing"),
}
