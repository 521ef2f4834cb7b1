# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs5``."""

_DD = ("no flag", "oflag=direct", "conv=fsync", "conv=fdatasync", "oflag=sync")

#: Case -> kind, and the metric of each of the answer's figures.
READ = {
    "outputs5/125": (
        "fio",
        {
            f"{kernel}: write {name}": f"run{number}_{metric}"
            for number, kernel in enumerate(("6.8-rc7", "revert"), start=1)
            for name, metric in (
                ("iops", "iops"),
                ("bandwidth", "bandwidth"),
                ("latency p99", "latency_p99"),
            )
        },
    ),
    "outputs5/134": (
        "iperf2",
        {"sent throughput (client to server)": "throughput", "TCP retries": "retransmits"},
    ),
    "outputs5/137": (
        "netperf",
        {
            "65507 B: received throughput": "udp_stream_1_throughput",
            "2800 B: received throughput": "udp_stream_2_throughput",
        },
    ),
    "outputs5/139": (
        "cpu",
        {
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
        },
    ),
    "outputs5/143": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency min": "latency_min",
        },
    ),
    "outputs5/145": (
        "timerlat",
        {
            "thread latency max": "latency_max",
            "interrupt latency max": "irq_latency_max",
            "user thread latency max": "user_latency_max",
        },
    ),
    "outputs5/147": (
        "dd",
        {
            f"{flag}: write throughput": f"run{number}_throughput"
            for number, flag in enumerate(_DD, start=1)
        },
    ),
    "outputs5/149": (
        "cyclictest",
        {"cyclictest: latency max": "latency_max", "cyclictest: latency mean": "latency_mean"},
    ),
    "outputs5/150": ("tpcc_mysql", {"New-Orders per minute": "tpmc"}),
}
#: Figures of an answer that a remark has, or that are left out by name.
LEFT_OUT = {
    "outputs5/139": ("events per second",),
    "outputs5/143": ("histogram overflows",),
}
#: Case -> how far a figure may be away where the answer rounds it, in bit/s.
TOLERANCE = {"outputs5/147": 4e5}
#: Cases of which no figure is judged.
SEVERAL = {f"outputs5/{at}" for at in (125, 137, 139, 143, 147, 149)}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs5/125": "several_runs",
    "outputs5/134": "held_to_a_rate",
    "outputs5/139": "held_to_a_rate",
    "outputs5/143": "beyond_histogram",
    "outputs5/147": "page_cache",
    "outputs5/149": "other_tools",
    "outputs5/150": "constraints_failed",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs5/134": ("round trip times",),
    "outputs5/139": ("'events_per_second'",),
    "outputs5/143": ("percentiles",),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs5/134": {"protocol": "TCP", "streams": "1", "rate asked for": "5g"},
    "outputs5/145": {"cpus": "3", "seconds": "601"},
    "outputs5/149": {"priority": "95", "interval in µs": "1000", "cycles": "349868"},
    "outputs5/150": {"warehouses": "10", "connections": "10", "seconds": "5"},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs5/134": (257.0, 5_676_364.0),
    "outputs5/139": (300.49,),
    "outputs5/143": (7_286_179.0,),
    "outputs5/149": (2_073_993.0, 2_073.993),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs5/126": ("cut off or wrapped", "clat (nsec)"),
    "outputs5/127": ("printed by Python, with single quotes",),
    "outputs5/128": ("cut off", "'issued'"),
    "outputs5/131": ("start.test_start.protocol", "part of a document"),
    "outputs5/132": ("it said 'error - unable to receive control message: Connection reset",),
    "outputs5/135": ("iperf2, netperf_rr", "name the benchmark"),
    "outputs5/138": ("no throughput with its unit",),
}
#: Partly right: a stream of events, cut.
NOT_RIGHT = {"outputs5/133"}
#: Of these the input is not in this tree.
ABSENT = {f"outputs5/{at}" for at in (122, 123, 124, 141, 148)}
#: Situations: case -> budget as its answer names it, files, kind, metric, and verdicts by arm.
SITUATIONS = (
    ("121", "vm", {"vm": "vm.txt"}, "fio", "sync_latency_p99", ["INCONCLUSIVE"]),
    ("121", "cloud", {"cloud": "cloud.txt"}, "fio", "sync_latency_p99", ["INCONCLUSIVE"]),
    ("129", "", {"before": "before.txt", "after": "after.txt"}, "iperf3", "", ["INCONCLUSIVE"]),
    ("130", "", {"vm": "vm.txt"}, "packets", "lost_share", ["INCONCLUSIVE"]),
    (
        "136",
        "",
        {"before": "before.txt", "after": "after.txt"},
        "netperf_rr",
        "transactions_per_second",
        ["INCONCLUSIVE"],
    ),
    ("140", "", {"vm": "vm.txt"}, "sysbench_memory", "", ["INCONCLUSIVE"]),
    ("142", "", {"board": "board.txt"}, "cyclictest", "latency_max", ["INVALID"]),
    ("144", "", {"guest": "guest.txt"}, "oslat", "", ["FAIL"]),
    ("146", "", {"edge": "device.txt"}, "hwlatdetect", "", ["PASS"]),
)
