# SPDX-License-Identifier: Apache-2.0
"""Outputs of the field against the answers that experts gave before anything was run.

Each case of ``tests/field/outputs*`` that was answered rightly stays so: its figures are those of
the answer, or its refusal says why.
"""

import functools
import pathlib
import random

from nova_perf_tuning import errors
from nova_perf_tuning.validation.bench import base, pasted, recognition
from tests.support import answers, testcase
from tests.unit.validation.bench import (
    outputs2,
    outputs5,
    outputs6,
    outputs7,
    outputs8,
    outputs9,
    outputs10,
    outputs11,
    outputs12,
    outputs34,
)

FIELD = pathlib.Path(__file__).parents[3] / "field"
#: Unit -> its size in the first of its kind: µs, bit/s; others are compared as they are.
UNITS = {
    "ns": 1e-3,
    "µs": 1.0,
    "ms": 1e3,
    "s": 1e6,
    "bit/s": 1.0,
    "Mbit/s": 1e6,
    "Gbit/s": 1e9,
    "B/s": 8.0,
    "KiB/s": 8 * 1024.0,
    "KB/s": 8 * 1024.0,  # of UnixBench, whose KB has 1,024 bytes
    "MiB/s": 8 * 1024.0**2,
    "GiB/s": 8 * 1024.0**3,
    "MB/s": 8e6,
}
LATENCIES = {
    "mean": "mean",
    "p50": "p50",
    "p95": "p95",
    "p99": "p99",
    "p99.9": "p999",
    "max": "max",
}


def _fio(prefix, answer, metric):
    """Return answer's name -> metric of a latency of fio."""
    return {f"{prefix}{answer}{name}": f"{metric}_{of}" for name, of in LATENCIES.items()}


def _fio1(name, metric):
    return {
        f"{name} write IOPS": f"{metric}_iops",
        f"{name} write bandwidth": f"{metric}_bandwidth",
        f"{name} completion latency mean": f"{metric}_latency_mean",
        f"{name} completion latency max": f"{metric}_latency_max",
    }


#: Case -> kind, and the metric of each of the answer's figures.
READ = {
    "outputs1/01": (
        "fio",
        {
            "read IOPS": "read_iops",
            "read bandwidth": "read_bandwidth",
            "write IOPS": "write_iops",
            "write bandwidth": "write_bandwidth",
        },
    ),
    "outputs1/02": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            "write latency mean (lat)": "total_latency_mean",
            **_fio("write completion latency ", "", "latency"),
            **_fio("fsync latency ", "", "sync_latency"),
        },
    ),
    "outputs1/03": (
        "fio",
        {
            **_fio1("random-write-direct", "random_write_direct"),
            **_fio1("random-write-buf", "random_write_buf"),
            **_fio1("sequential-write-direct", "sequential_write_direct"),
            **_fio1("sequential-write-buffered", "sequential_write_buffered"),
        },
    ),
    "outputs1/04": (
        "fio",
        {
            "write IOPS": "iops",
            "write bandwidth": "bandwidth",
            "write latency mean (lat)": "total_latency_mean",
            **_fio("write completion latency ", "", "latency"),
        },
    ),
    "outputs1/05": (
        "fio",
        {
            "read IOPS": "read_iops",
            "read bandwidth": "read_bandwidth",
            "write IOPS": "write_iops",
            "write bandwidth": "write_bandwidth",
            **{
                f"read latency {name} (lat)": f"read_total_latency_{of}"
                for name, of in LATENCIES.items()
            },
            **{
                f"write latency {name} (lat)": f"write_total_latency_{of}"
                for name, of in LATENCIES.items()
            },
        },
    ),
    "outputs1/07": (
        "iperf3",
        {
            "throughput received": "throughput",
            "throughput sent": "sent_throughput",
            "retransmits": "retransmits",
        },
    ),
    "outputs1/09": (
        "iperf3",
        {
            "throughput client to server": "client_to_server_throughput",
            "throughput server to client": "server_to_client_throughput",
            "retransmits client to server": "client_to_server_retransmits",
            "retransmits server to client": "server_to_client_retransmits",
        },
    ),
    "outputs1/10": (
        "iperf3",
        {
            "throughput received": "throughput",
            "throughput sent": "sent_throughput",
            "retransmits": "retransmits",
        },
    ),
    "outputs1/12": ("iperf2", {"throughput as the client sent it": "throughput"}),
    "outputs1/13": (
        "iperf2",
        {
            "throughput received (server's report)": "throughput",
            "jitter": "jitter",
            "datagrams lost": "lost",
        },
    ),
    "outputs1/14": ("netperf", {"throughput (TCP_STREAM)": "throughput"}),
    "outputs1/15": (
        "netperf",
        {
            "transactions (TCP_RR)": "tcp_rr_transactions_per_second",
            "throughput client to server (TCP_STREAM)": "tcp_stream_throughput",
            "throughput server to client (TCP_MAERTS)": "tcp_maerts_throughput",
        },
    ),
    "outputs1/16": (
        "netperf_rr",
        {
            "transactions (TCP_RR)": "transactions_per_second",
            "latency mean": "latency_mean",
            "latency min": "latency_min",
            "latency max": "latency_max",
        },
    ),
    "outputs1/17": (
        "cpu",
        {
            "events per second": "events_per_second",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
        },
    ),
    "outputs1/19": (
        "sysbench_fileio",
        {
            "writes per second": "writes_per_second",
            "written": "write_throughput",
            "fsyncs per second": "fsyncs_per_second",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
        },
    ),
    "outputs1/20": (
        "oltp",
        {
            "transactions per second": "transactions_per_second",
            "queries per second": "queries_per_second",
            "latency mean": "latency_mean",
            "latency p95": "latency_p95",
            "latency max": "latency_max",
            "ignored errors": "errors",
        },
    ),
    "outputs1/21": (
        "cyclictest",
        {
            "latency max (of all threads)": "latency_max",
            "latency mean (of all threads, by cycles)": "latency_mean",
            "latency min": "latency_min",
            "latency max of threads 0 to 4": tuple(f"latency_max_thread{at}" for at in range(5)),
        },
    ),
    "outputs1/22": (
        "cyclictest",
        {
            "latency max (of all threads)": "latency_max",
            "latency mean (of all threads)": "latency_mean",
            "latency min": "latency_min",
            "latency p50": "latency_p50",
            "latency p95": "latency_p95",
            "latency p99": "latency_p99",
            "latency p99.9": "latency_p999",
            "latency p99.99": "latency_p99_99",
            "latency max of CPU 6 to 11": tuple(f"latency_max_cpu{at}" for at in range(6, 12)),
        },
    ),
    "outputs1/23": (
        "cyclictest",
        {
            "latency max": "latency_max",
            "latency mean": "latency_mean",
            "latency min": "latency_min",
            "latency p50": "latency_p50",
            "latency p99": "latency_p99",
            "latency p99.9": "latency_p999",
        },
    ),
    "outputs1/24": (
        "oslat",
        {
            "latency max (of all CPUs)": "latency_max",
            "latency max of CPU 5 to 11": tuple(f"latency_max_cpu{at}" for at in range(5, 12)),
            "latency mean": "latency_mean",
        },
    ),
    "outputs1/25": (
        "unixbench",
        {
            "index score with 1 copy": "copies1_score",
            "index score with 2 copies": "copies2_score",
            "Dhrystone with 1 copy": "copies1_dhrystone",
            "Whetstone with 1 copy": "copies1_whetstone",
            "file copy 4096 with 1 copy": "copies1_file_copy_4096",
            "pipe-based context switching with 1 copy": "copies1_context",
            "shell scripts (8) with 1 copy": "copies1_shell8",
            "Dhrystone with 2 copies": "copies2_dhrystone",
            "Whetstone with 2 copies": "copies2_whetstone",
            "process creation with 2 copies": "copies2_process",
            "system call overhead with 2 copies": "copies2_syscall",
        },
    ),
    "outputs1/26": (
        "unixbench6",
        {"index score with 1 copy (UnixBench 6.0.0)": "copies1_score"},
    ),
    "outputs1/27": (
        "himenobmtxp",
        {
            "MFLOPS of the first run (offset 127)": "run1_mflops",
            "MFLOPS of the second run (offset 0)": "run2_mflops",
        },
    ),
    "outputs1/28": (
        "tpcc_mysql",
        {
            "TpmC": "tpmc",
            "New-Order latency mean": "new_order_latency_mean",
            "New-Order latency p95": "new_order_latency_p95",
            "New-Order latency p99": "new_order_latency_p99",
            "New-Order latency max": "new_order_latency_max",
        },
    ),
    "outputs1/29": (
        "dd",
        {
            "rate of the first run": "run1_throughput",
            "rate of the second run": "run2_throughput",
        },
    ),
    **outputs2.READ,
    **outputs34.READ,
    **outputs5.READ,
    **outputs6.READ,
    **outputs7.READ,
    **outputs8.READ,
    **outputs9.READ,
    **outputs10.READ,
    **outputs11.READ,
    **outputs12.READ,
}
#: Figures of an answer that it lets be left out.
LEFT_OUT = {
    "outputs1/10": ("round trip time mean",),
    **outputs2.LEFT_OUT,
    **outputs34.LEFT_OUT,
    **outputs5.LEFT_OUT,
    **outputs6.LEFT_OUT,
    **outputs9.LEFT_OUT,
    **outputs10.LEFT_OUT,
    **outputs11.LEFT_OUT,
    **outputs12.LEFT_OUT,
}
#: Case -> how far a figure may be away where the answer allows it (a bin of a histogram).
TOLERANCE = {
    "outputs1/22": 1.0,
    "outputs1/23": 1.0,
    **outputs2.TOLERANCE,
    **outputs34.TOLERANCE,
    **outputs5.TOLERANCE,
    **outputs8.TOLERANCE,
}
#: Cases with several runs, of which none is judged.
SEVERAL = (
    {"outputs1/03", "outputs1/09", "outputs1/15", "outputs1/21"}
    | {f"outputs1/{at}" for at in (25, 26, 27, 29)}
    | outputs2.SEVERAL
    | outputs34.SEVERAL
    | outputs5.SEVERAL
    | outputs6.SEVERAL
    | outputs7.SEVERAL
    | outputs8.SEVERAL
    | outputs9.SEVERAL
    | outputs10.SEVERAL
    | outputs11.SEVERAL
    | outputs12.SEVERAL
)
#: Case -> code of what the answer wants to be said.
REMARKS = {
    "outputs1/03": "old_units",
    "outputs1/14": "stopped",
    "outputs1/17": "rate_computed",
    "outputs1/19": "latency_of_all",
    "outputs1/23": "beyond_histogram",
    "outputs1/26": "other_version",
    "outputs1/28": "constraints_failed",
    "outputs1/29": "page_cache",
    **outputs2.REMARKS,
    **outputs34.REMARKS,
    **outputs5.REMARKS,
    **outputs6.REMARKS,
    **outputs7.REMARKS,
    **outputs8.REMARKS,
    **outputs9.REMARKS,
    **outputs10.REMARKS,
    **outputs11.REMARKS,
    **outputs12.REMARKS,
}
#: Case -> what the refusal says.
REFUSED = {
    "outputs1/06": ("error 5", "Input/output error", "JSON"),
    "outputs1/08": ("receiver", "cut off"),
    "outputs1/18": ("sysbench_memory", "0 events"),
    "outputs1/30": ("rtla osnoise", "oslat", "cyclictest"),
    "outputs1/11": ("iperf3", "error - unable to connect to server: No route to host"),
    **outputs2.REFUSED,
    **outputs34.REFUSED,
    **outputs5.REFUSED,
    **outputs6.REFUSED,
    **outputs7.REFUSED,
    **outputs8.REFUSED,
    **outputs9.REFUSED,
    **outputs10.REFUSED,
    **outputs11.REFUSED,
    **outputs12.REFUSED,
}
#: Case -> words of what is named as left out, facts of the workload, values that no figure may have.
NAMED = {
    **outputs2.NAMED,
    **outputs34.NAMED,
    **outputs5.NAMED,
    **outputs6.NAMED,
    **outputs7.NAMED,
    **outputs8.NAMED,
    **outputs9.NAMED,
    **outputs10.NAMED,
    **outputs11.NAMED,
    **outputs12.NAMED,
}
WORKLOAD = {
    **outputs2.WORKLOAD,
    **outputs34.WORKLOAD,
    **outputs5.WORKLOAD,
    **outputs6.WORKLOAD,
    **outputs7.WORKLOAD,
    **outputs8.WORKLOAD,
    **outputs9.WORKLOAD,
    **outputs10.WORKLOAD,
    **outputs11.WORKLOAD,
    **outputs12.WORKLOAD,
}
NEVER = {
    **outputs2.NEVER,
    **outputs34.NEVER,
    **outputs5.NEVER,
    **outputs6.NEVER,
    **outputs7.NEVER,
    **outputs8.NEVER,
    **outputs9.NEVER,
    **outputs10.NEVER,
    **outputs11.NEVER,
    **outputs12.NEVER,
}


def _answer_file(name):
    folder, number = name.split("/")
    [found] = (FIELD / folder).glob(f"{number}-*.answer.yaml")
    return found


@functools.cache  # many tests read them all
def output(name):
    """Return the bytes of a case's output."""
    known = _answer_file(name)
    stem = known.name.removesuffix(".answer.yaml")
    [found] = [path for path in known.parent.glob(f"{stem}.*") if path != known]
    return found.read_bytes()


def answer(name):
    """Return the answer of a case."""
    return answers.load(_answer_file(name))


def normal(value, unit):
    return value * UNITS.get(unit, 1.0)


class AnswersTest(testcase.TestCase):
    def test_figures_are_those_of_the_answer(self):
        for name, (kind, metrics) in READ.items():
            text = pasted.decode(output(name))
            tool = recognition.recognise(text)
            self.assertEqual(kind, tool.kind, name)
            shown = {reading.metric: reading for reading in tool.report(text).readings}
            for figure in answer(name).get("figures", ()):
                metric = metrics.get(figure["name"])
                if metric is None:
                    self.assertIn(figure["name"], LEFT_OUT.get(name, ()), name)
                    continue
                wanted, names = figure["value"], [metric]
                if isinstance(metric, tuple):
                    names = list(metric)
                else:
                    wanted = [wanted]
                for at, each in zip(names, wanted, strict=True):
                    with self.subTest(name=name, figure=figure["name"]):
                        reading = shown[at]
                        value = normal(reading.value, reading.unit)
                        right = normal(each, figure["unit"])
                        self.assertTrue(
                            abs(value - right) <= max(0.01 * abs(right), TOLERANCE.get(name, 0)),
                            (at, value, right),
                        )

    def test_every_case_is_held(self):
        """A case that is answered wrongly is not here: it is in the table of its batch."""
        cases = set()
        for folder in (f"outputs{batch}" for batch in range(1, 13)):
            for path in (FIELD / folder).glob("*.answer.yaml"):
                cases.add(f"{folder}/{path.name.partition('-')[0]}")
        situations = {f"outputs5/{number}" for number, *_rest in outputs5.SITUATIONS}
        held = {*READ, *REFUSED, *situations}
        self.assertEqual(cases, held | outputs5.NOT_RIGHT | outputs5.ABSENT)

    def test_what_must_be_said_beside_figures(self):
        for name, code in REMARKS.items():
            text = pasted.decode(output(name))
            with self.subTest(name):
                tool = recognition.recognise(text)
                self.assertIn(code, recognition.report(tool, text).remarks)

    def test_what_must_be_named_and_what_must_not_be_a_figure(self):
        for name in {*NAMED, *WORKLOAD, *NEVER}:
            text = pasted.decode(output(name))
            report = recognition.recognise(text).report(text)
            said = "\n".join(report.left_out)
            for word in NAMED.get(name, ()):
                with self.subTest(name=name, word=word):
                    self.assertIn(word, said)
            facts = WORKLOAD.get(name, {})
            with self.subTest(name=name):
                self.assertEqual(facts, {fact: report.workload.get(fact) for fact in facts})
            for value in NEVER.get(name, ()):
                for reading in report.readings:
                    with self.subTest(name=name, metric=reading.metric):
                        self.assertNotAlmostEqual(value, reading.value, 1)

    def test_refusals_say_why(self):
        for name, words in REFUSED.items():
            data = output(name)
            error = self.assertRaises(
                errors.PerfTuningError, recognition.recognise, pasted.decode(data)
            )
            for word in words:
                with self.subTest(name=name, word=word):
                    self.assertIn(word, str(error))

    def test_several_runs_have_no_judged_figure(self):
        for name, (_kind, _metrics) in READ.items():
            text = pasted.decode(output(name))
            judged = [
                item for item in recognition.recognise(text).report(text).readings if item.primary
            ]
            with self.subTest(name):
                self.assertEqual(0 if name in SEVERAL else 1, len(judged))

    def test_a_cut_output_is_never_another_figure(self):
        """Wherever a paste ends, its figures are those of the whole one, or there are none."""
        source = random.Random(7)
        for name, (kind, _metrics) in READ.items():
            data = output(name)
            text = pasted.decode(data)
            tool = recognition.load_reader(kind)
            whole = {round(reading.value, 9) for reading in tool.report(text).readings}
            places = [source.randrange(len(text)) for _time in range(25)]
            for place in places:
                endless = (
                    outputs34.NO_END
                    | outputs9.NO_END
                    | outputs10.NO_END
                    | outputs11.NO_END
                    | outputs12.NO_END
                )
                if name in endless and "\n" in text[place - 1 : place + 1]:
                    continue
                try:
                    shown = tool.report(text[:place]).readings
                except base.BenchmarkOutputError:
                    continue
                with self.subTest(name=name, place=place, end=text[place - 30 : place]):
                    figures = {round(reading.value, 9) for reading in shown}
                    self.assertEqual(set(), figures - whole)

    def test_quotes_prefixes_and_other_encodings(self):
        """More forms, on some of the outputs: test_pasted."""
        for number, (name, (kind, _metrics)) in enumerate(READ.items()):
            data = output(name)
            tool = recognition.load_reader(kind)
            text = pasted.decode(data)
            whole = tool.report(text)
            quoted = "\n".join(f"> {line}" for line in text.split("\n"))
            logged = "\n".join(f"2026-11-29T10:00:00Z {line}" for line in text.split("\n"))
            labelled = "\n".join(f"[VM 1] {line}" for line in text.split("\n"))
            composed = "\n".join(f"bench-1  | {line}" for line in text.split("\n"))
            indented = "\n".join(f"    {line}" for line in text.split("\n"))
            windows = text.replace("\n", "\r\n")
            forms = (
                ("quoted", quoted.encode()),
                ("logged", logged.encode()),
                ("labelled", labelled.encode()),
                ("composed", composed.encode()),
                ("indented", indented.encode()),
                ("CR LF", windows.encode()),
                ("UTF-16", windows.encode("utf-16")),
            )
            for form, changed in (forms[number % 5], forms[5 + number % 2]):
                with self.subTest(name=name, form=form):
                    self.assertEqual(whole.readings, tool.report(pasted.decode(changed)).readings)
