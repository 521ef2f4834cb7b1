# SPDX-License-Identifier: Apache-2.0
"""Which metrics are the figures of the answers of ``tests/field/outputs3`` and ``outputs4``."""


def _fio(way, prefix=""):
    """Return answer's name -> metric of one direction of fio."""
    return {
        f"{way} iops": f"{prefix}iops",
        f"{way} bandwidth": f"{prefix}bandwidth",
        f"{way} completion latency mean": f"{prefix}latency_mean",
        f"{way} completion latency p99": f"{prefix}latency_p99",
        f"{way} completion latency p99.9": f"{prefix}latency_p999",
    }


def _cpu(run, prefix):
    """Return answer's name -> metric of one run of sysbench cpu."""
    return {
        f"{run}: events": f"{prefix}_events_per_second",
        f"{run}: latency mean": f"{prefix}_latency_mean",
        f"{run}: latency p95": f"{prefix}_latency_p95",
    }


def _datagrams(run, prefix):
    """Return answer's name -> metric of one test of UDP."""
    return {f"{run}: lost datagrams": f"{prefix}_lost_share", f"{run}: jitter": f"{prefix}_jitter"}


def _files(run, prefix):
    """Return answer's name -> metric of one run of sysbench fileio."""
    return {
        f"{run}: reads": f"{prefix}_reads_per_second",
        f"{run}: writes": f"{prefix}_writes_per_second",
        f"{run}: read throughput": f"{prefix}_read_throughput",
        f"{run}: write throughput": f"{prefix}_write_throughput",
        f"{run}: latency p95": f"{prefix}_latency_p95",
    }


_TCP = {
    "throughput received": "throughput",
    "throughput sent": "sent_throughput",
    "retransmits": "retransmits",
}

#: Case -> kind, and the metric of each of the answer's figures.
READ = {
    "outputs3/69": (
        "iperf3",
        {
            "run 1, client to server, received": "test1_client_to_server_throughput",
            "run 1, client to server, retransmits": "test1_client_to_server_retransmits",
            "run 1, server to client, received": "test1_server_to_client_throughput",
            "run 1, server to client, retransmits": "test1_server_to_client_retransmits",
            "run 2, client to server, received": "test2_client_to_server_throughput",
            "run 2, client to server, retransmits": "test2_client_to_server_retransmits",
            "run 2, server to client, received": "test2_server_to_client_throughput",
            "run 2, server to client, retransmits": "test2_server_to_client_retransmits",
        },
    ),
    "outputs3/61": ("fio", _fio("write")),
    "outputs3/64": (
        "fio",
        {**_fio("socket0-md read", "socket0_md_"), **_fio("socket1-md read", "socket1_md_")},
    ),
    "outputs3/65": ("fio", _fio("read")),
    "outputs3/66": ("iperf3", _TCP),
    "outputs3/67": (
        "packets",
        {"throughput sent": "sent_throughput", "lost": "lost_share", "jitter": "jitter"},
    ),
    "outputs3/68": (
        "iperf3",
        {
            "run 1, throughput received": "test1_throughput",
            "run 1, retransmits": "test1_retransmits",
            "run 2, throughput received": "test2_throughput",
            "run 2, retransmits": "test2_retransmits",
        },
    ),
    "outputs3/71": (
        "iperf2",
        {
            "throughput received (ten reports added)": "throughput",
            "lost (165741 of 247762)": "lost_share",
        },
    ),
    "outputs3/72": (
        "netperf",
        {
            "TCP_STREAM throughput": "tcp_stream_throughput",
            "UDP_STREAM throughput received": "udp_stream_throughput",
        },
    ),
    "outputs3/73": ("netperf_rr", {"transaction rate": "transactions_per_second"}),
    "outputs3/74": (
        "netperf_rr",
        {
            "transaction rate": "transactions_per_second",
            "latency p50": "latency_p50",
            "latency p90": "latency_p90",
            "latency p99": "latency_p99",
        },
    ),
    "outputs3/75": ("cpu", {"latency mean": "latency_mean", "latency p95": "latency_p95"}),
    "outputs3/76": (
        "oltp",
        {
            "transactions": "transactions_per_second",
            "read and write requests": "requests_per_second",
            "latency mean": "latency_mean",
            "latency p99": "latency_p99",
        },
    ),
    "outputs3/77": (
        "sysbench_fileio",
        {
            "reads": "reads_per_second",
            "writes": "writes_per_second",
            "fsyncs": "fsyncs_per_second",
            "read throughput": "read_throughput",
            "write throughput": "write_throughput",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
        },
    ),
    "outputs3/78": ("oltp", {"latency mean": "latency_mean", "latency p95": "latency_p95"}),
    "outputs3/79": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency min": "latency_min",
        },
    ),
    "outputs3/81": ("oslat", {"latency max": "latency_max"}),
    "outputs3/83": ("himenobmtxp", {"performance": "mflops"}),
    "outputs3/84": (
        "himenobmtxp",
        {"run 1, performance": "run1_mflops", "run 2, performance": "run2_mflops"},
    ),
    "outputs3/85": ("tpcc_mysql", {"TpmC": "tpmc"}),
    "outputs3/86": ("tpcc_mysql", {"run 1, TpmC": "run1_tpmc", "run 2, TpmC": "run2_tpmc"}),
    "outputs3/88": ("dd", {"write throughput": "throughput"}),
    "outputs3/90": (
        "unixbench6",
        {"index, 1 copy": "copies1_score", "index, 2 copies": "copies2_score"},
    ),
    "outputs4/91": ("fio", _fio("write")),
    "outputs4/92": (
        "fio",
        {
            "iops (reads and writes together)": "iops",
            "bandwidth (reads and writes together)": "bandwidth",
            "latency mean": "mixed_total_latency_mean",
        },
    ),
    "outputs4/94": (
        "fio",
        {
            "group 0 (random writes, 4 KiB): iops": "hdd_4kws_iops",
            "group 0: completion latency mean": "hdd_4kws_mixed_latency_mean",
            "group 1 (random writes, 4 KiB): iops": "hdd_4kwd_iops",
            "group 1: completion latency mean": "hdd_4kwd_mixed_latency_mean",
            "group 2 (random reads, 4 KiB): iops": "hdd_4krd_iops",
            "group 2: completion latency mean": "hdd_4krd_mixed_latency_mean",
            "group 3 (writes, 1 MiB): bandwidth": "hdd_1mwd_1_bandwidth",
            "group 4 (reads, 1 MiB): bandwidth": "hdd_1mwd_2_bandwidth",
        },
    ),
    "outputs4/95": (
        "fio",
        {
            **_fio("write"),
            "sync latency mean": "sync_latency_mean",
            "sync latency p99": "sync_latency_p99",
        },
    ),
    "outputs4/97": (
        "iperf3",
        {
            f"{title}: received throughput (server to client)": f"{title}_throughput"
            for title in ("s1", "s2", "s3", "s4")
        },
    ),
    "outputs4/99": (
        "packets",
        {
            **_datagrams("1G", "test1"),
            **_datagrams("20G", "test2"),
            **_datagrams("100M", "test3"),
        },
    ),
    "outputs4/104": (
        "netperf",
        {"round 2: throughput (client to server)": "tcp_stream_2_throughput"},
    ),
    "outputs4/105": ("netperf", {"throughput (client to server)": "throughput"}),
    "outputs4/106": (
        "netperf",
        {
            "first run: throughput (client to server)": "tcp_stream_1_throughput",
            "first run: CPU use, sender": "tcp_stream_1_local_cpu",
            "first run: CPU use, receiver": "tcp_stream_1_remote_cpu",
            "second run: throughput (client to server)": "tcp_stream_2_throughput",
        },
    ),
    "outputs4/107": (
        "sysbench_oltp",
        {
            "transactions": "transactions_per_second",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
        },
    ),
    "outputs4/108": (
        "sysbench",
        {
            **_cpu("first", "run1_cpu"),
            **_cpu("second", "run2_cpu"),
        },
    ),
    "outputs4/110": (
        "sysbench",
        {
            **_files("fsync", "run1_fileio"),
            **_files("fdatasync", "run2_fileio"),
        },
    ),
    "outputs4/111": (
        "cyclictest",
        {
            "real-time kernel: latency max": "run1_latency_max",
            "real-time kernel: latency mean": "run1_latency_mean",
            "default kernel: latency max": "run2_latency_max",
            "default kernel: latency mean": "run2_latency_mean",
        },
    ),
    "outputs4/112": (
        "cyclictest",
        {"latency max": "latency_max", "latency mean": "latency_mean"},
    ),
    "outputs4/115": ("himenobmtxp", {"performance": "mflops"}),
    "outputs4/116": ("tpcc_mysql", {"TpmC": "tpmc"}),
    "outputs4/117": ("dd", {"write throughput": "throughput"}),
    "outputs4/118": ("dd", {"read throughput": "throughput"}),
    "outputs4/119": (
        "unixbench",
        {"index of 1 copy": "copies1_score", "index of 64 copies": "copies64_score"},
    ),
}
#: Figures of an answer that stand in the workload or are left out by name.
LEFT_OUT = {
    "outputs3/75": ("total time",),
    "outputs3/78": ("transactions", "queries"),
}
#: Case -> how far a figure may be away where the answer rounds it.
TOLERANCE = {"outputs4/111": 0.5}
#: Cases of which no figure is judged.
SEVERAL = {
    "outputs3/69",
    *(f"outputs3/{at}" for at in (64, 68, 72, 78, 79, 84, 86, 90)),
    *(f"outputs4/{at}" for at in (94, 97, 99, 104, 106, 108, 110, 111, 119)),
}
#: Cases without the number of threads (cyclictest --smp): nothing shows that a line of one is missing.
NO_END = {"outputs4/111", "outputs4/112"}
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs3/64": "stopped",
    "outputs3/67": "rate_not_reached",
    "outputs3/75": "rate_computed",
    "outputs3/78": "held_to_a_rate",
    "outputs3/85": "constraints_failed",
    "outputs3/86": "constraints_failed",
    "outputs3/88": "page_cache",
    "outputs3/90": "other_version",
    "outputs4/91": "no_data",
    "outputs4/92": "mixed_directions",
    "outputs4/94": "mixed_directions",
    "outputs4/95": "synchronised",
    "outputs4/105": "protocol_unknown",
    "outputs4/116": "constraints_failed",
    "outputs4/118": "page_cache",
}
#: Case -> words of what is named as left out.
NAMED = {
    "outputs3/65": ("single clients", "percentiles", "block size"),
    "outputs3/72": ("'local_cpu'", "'remote_cpu'"),
    "outputs3/73": ("interim results", "a further run"),
    "outputs3/74": ("throughput confidence width",),
    "outputs3/77": ("threads", "block size"),
    "outputs3/78": ("figures a second",),
    "outputs3/79": ("percentiles", "lines are missing", "19 wake-ups"),
    "outputs3/81": ("latency_mean", "interruptions"),
    "outputs3/86": ("warehouses", "run2: mean latencies"),
    "outputs4/117": ("bs=512k' is another run's",),
    "outputs4/92": ("completion latency", "percentiles", "single clients", "depth", "engine"),
    "outputs4/99": ("the receiver's rate",),
    "outputs4/108": ("threads", "largest number"),
    "outputs4/104": ("tcp_stream_1", "partial response received"),
}
#: Case -> facts of the workload.
WORKLOAD = {
    "outputs3/71": {"protocol": "UDP", "streams": "10", "rate asked for": "110m"},
    "outputs3/67": {"rate asked for": "1000M", "blocks asked for": "10000"},
    "outputs3/73": {"test": "TCP_RR", "CPUs (-T)": "1,1"},
    "outputs3/74": {"test": "UDP_RR"},
    "outputs3/75": {"largest number": "20000", "threads": "1", "seconds": "26.47"},
    "outputs3/76": {"threads": "32", "version": "0.5"},
    "outputs3/77": {"pattern": "rndrw", "total size": "20G"},
    "outputs3/79": {"threads": "16", "priority": "1", "interval in µs": "1000"},
    "outputs3/81": {"version": "0.1.0", "seconds": "3600.74", "priority": "1"},
    "outputs3/83": {"grid": "513 x 513 x 1025", "processes": "2 x 2 x 2"},
    "outputs3/84": {"run1_command": "cpuset -l 79 ./himenobmtxpa L 127"},
    "outputs4/115": {"grid": "65 x 65 x 129", "processes": "1"},
    "outputs4/117": {"command": None},
    "outputs4/118": {"command": "dd if=/dev/loop0 of=/dev/null"},
    "outputs4/91": {"engine": "falloc", "depth": "1", "depth asked for": "32"},
    "outputs4/107": {"test": "simple", "mode": "read-only", "skips": "BEGIN/COMMIT"},
    "outputs4/105": {"message": "16384 bytes", "protocol": None},
}
#: Case -> values that no figure may have.
NEVER = {
    "outputs3/61": (19_205.0,),
    "outputs3/68": (5_070.0,),
    "outputs4/97": (92_000.0,),
    "outputs3/72": (140.06, 82.0),
    "outputs3/73": (38_331.29, 64_818.97),
    "outputs3/74": (133_024.0,),
    "outputs3/75": (26.468, 10_000.0),
    "outputs3/76": (934.8, 57.62),
    "outputs3/77": (1_027.76,),
    "outputs3/78": (143.01, 2_860.17),
    "outputs3/79": (30.0,),
    "outputs3/81": (32.0, 31.0, 2_197.0, 1.0),
    "outputs3/83": (16_116.97,),
    "outputs3/84": (1_056.41, 673.11),
    "outputs3/86": (979.0, 2_305.0),
    "outputs4/118": (406_865.0,),
    "outputs4/107": (2_085_654.0, 34_753.0),
    "outputs4/104": (128.46, 118.14, 125.1, 120.97),
    "outputs4/106": (286.45, 782.55),
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs3/62": ("error 42", "Illegal byte sequence"),
    "outputs3/63": ("terse form", "--output-format=json"),
    "outputs3/70": ("iperf2, dd",),
    "outputs3/80": ("part of the JSON", "head", "cyclictest --json"),
    "outputs3/82": ("ptsematest", "oslat", "cyclictest"),
    "outputs4/113": ("names oslat", "oslat --json=-"),
    "outputs4/114": ("ptsematest", "cyclictest"),
    "outputs3/87": ("No space left on device",),
    "outputs3/89": ("2 reports",),
    "outputs4/93": ("cut off", "'rand-readwrite'"),
    "outputs4/96": ("error 28", "terse form"),
    "outputs4/98": ("unable to receive results",),
    "outputs4/100": ("2 reports",),
    "outputs4/101": ("cut off", "3 of 10 s"),
    "outputs4/102": ("several runs", "-y C"),
    "outputs4/103": ("10 lines of a whole test and 1 heads",),
    "outputs4/109": ("too many clients",),
    "outputs4/120": ("4 reports",),
}
