# SPDX-License-Identifier: Apache-2.0
"""Tables of the published figures, worked out again by this project's own code, beside what was measured here.

``perf-published:: TABLE`` with TABLE one of unixbench, copies, himeno, fio, iperf, tpcc, netperf, measured.
Figures come from data/published.yaml and, of runs on this project's own rig, data/measured.yaml.
"""

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import yaml
from code_reference import Generated, table, wrapped

from nova_perf_tuning.validation.bench import unixbench
from nova_perf_tuning.validation.report import text

DATA = pathlib.Path(__file__).parents[1] / "source/data"


#: UnixBench's test -> the small test of our own that measures the like of it.
LIKE = {
    "Execl Throughput": "exec",
    "File Copy 1024 bufsize 2000 maxblocks": "copy_1024",
    "File Copy 256 bufsize 500 maxblocks": "copy_256",
    "File Copy 4096 bufsize 8000 maxblocks": "copy_4096",
    "Pipe Throughput": "pipe",
    "Pipe-based Context Switching": "context",
    "Process Creation": "process",
    "Shell Scripts (8 concurrent)": "shell",
    "System Call Overhead": "syscall",
    "Score": "geometric_mean",
}


#: What the published copies were measured with -> guests of data/measured.yaml.
DEVICES = {"no virtio": ("emulated",), "NIC virtio": ("nic",), "NIC and disk virtio": ("both",)}


class Here:
    """What was measured on this project's own rig."""

    def __init__(self) -> None:
        self.data: Any = yaml.safe_load((DATA / "measured.yaml").read_text(encoding="utf-8"))

    def benchmark(
        self, kind: str, guests: str = "untuned", **parameters: object
    ) -> Mapping[str, Any]:
        """Return the entry of a benchmark that was run with these parameters; empty: it was not."""
        for benchmark_entry in (
            benchmark for run in self.data["runs"] for benchmark in run["benchmarks"]
        ):
            given = benchmark_entry["parameters"]
            if (benchmark_entry["label"].partition(":")[0], benchmark_entry["guests"]) == (
                kind,
                guests,
            ) and all(given.get(key) == str(value) for key, value in parameters.items()):
                found: Mapping[str, Any] = benchmark_entry
                return found
        return {}

    def cells(
        self, kind: str, metric: str = "", guests: str = "untuned", **parameters: object
    ) -> list[str]:
        """Return guest, host and ratio of a figure, the judged one without ``metric``; three empty cells: none."""
        for figure in self.benchmark(kind, guests, **parameters).get("figures", ()):
            if metric in ("", figure["metric"]):
                return [number(figure["guest"]), number(figure["host"]), ratio(figure["ratio"])]
        return ["", "", ""]


def number(value: float | None) -> str:
    """Return a figure as the report has it; empty: there is none."""
    return "" if value is None else text.number(value)


def percent(share: float | None) -> str:
    """Return a share of one CPU in per cent; empty: there is none."""
    return "" if share is None else f"{100 * share:.0f}"


def ratio(found: list[float | None] | None) -> str:
    """Return a ratio with its interval."""
    if found is None:
        return ""
    value, low, high, count = found
    return f"{value:.3g}" + (f" (n={count})" if low is None else f" ({low:.3g} to {high:.3g})")


class Published(Generated):
    """One table."""

    def lines(self) -> list[str]:
        figures = yaml.safe_load((DATA / "published.yaml").read_text(encoding="utf-8"))
        self.here = Here()
        make = {
            "unixbench": self.unixbench,
            "copies": self.copies,
            "himeno": self.himeno,
            "fio": self.fio,
            "iperf": self.iperf,
            "tpcc": self.tpcc,
            "netperf": self.netperf,
            "measured": self.measured,
        }[self.arguments[0]]
        return make(figures)

    def unixbench(self, figures: Any) -> list[str]:
        reports = [
            {name: result for name, (result, _index) in report["tests"].items()}
            for report in figures["unixbench"]
        ]
        rows = [
            [
                name,
                *(f"{unixbench.index(name, results[name]):,.2f}" for results in reports),
                *self.like(name),
            ]
            for name in unixbench.TESTS
        ]
        rows.append(
            [
                "Score",
                *(f"{unixbench.score(results):,.3f}" for results in reports),
                *self.like("Score"),
            ]
        )
        rows.append(
            [
                "Score as printed",
                *(f"{report['score']:,.1f}" for report in figures["unixbench"]),
                "",
                "",
                "",
            ]
        )
        head = [
            "Index",
            *(figure["label"] for figure in figures["unixbench"]),
            "Here: UnixBench, guest / host",
            "Here: test of ``system``",
            "guest / host",
        ]
        return table(head, rows, "22 10 10 10 10 10 10 14 14 18")

    def like(self, name: str) -> list[str]:
        """Return guest / host in a test of UnixBench, our own test that is like it, and its ratio."""
        metric = f"{unixbench.TESTS[name][0]}_index" if name in unixbench.TESTS else "score"
        same = self.here.cells("unixbench", metric)[2]
        return [
            same,
            LIKE.get(name, "none"),
            self.here.cells("system", LIKE[name])[2] if name in LIKE else "",
        ]

    def copies(self, figures: Any) -> list[str]:
        rows = []
        for size, columns in figures["copies"].items():
            means = [math.fsum(column["runs"]) / len(column["runs"]) for column in columns]
            for column, mean in zip(columns, means, strict=True):
                share, host = 100 * mean / means[0], 100 * mean / means[-1]
                printed = f"{column['mean']:,.0f}; {column['percent']:.1f} %"
                rows.append(
                    [
                        f"{size} MB",
                        column["label"],
                        f"{mean:,.2f}",
                        f"{share:.2f} %",
                        printed,
                        f"{host:.1f} %",
                        self.copied(column["label"], size),
                    ]
                )
        head = [
            "File",
            "Guest",
            "Mean of three, bytes/s",
            "Of the first",
            "Printed",
            "Of the host",
        ]
        head.append("Here, of the host")
        return table(head, rows, "9 18 18 12 20 11 18")

    def copied(self, label: str, size: int) -> str:
        """Return our ratio for a kind of guests; "1" for the host itself, empty where it was not run."""
        if label == "host, Linux":
            return "1"
        arms = ("untuned", *DEVICES[label]) if label == "NIC and disk virtio" else DEVICES[label]
        found = (self.here.cells("smb", guests=arm, megabytes=size)[2] for arm in arms)
        return next(filter(None, found), "not run")

    def himeno(self, figures: Any) -> list[str]:
        rows = [
            [
                str(figure["cpus"]),
                f"{figure['guest_mflops']:,.1f}",
                f"{figure['host_mflops']:,.1f}",
                f"{100 * (1 - figure['guest_mflops'] / figure['host_mflops']):.2f} %",
                f"{figure['host_cpu'] - figure['guest_cpu']} points",
                *self.here.cells("himeno", processes=figure["cpus"]),
            ]
            for figure in figures["himeno"]
        ]
        size = self.here.benchmark("himeno").get("parameters", {}).get("size", "?")
        head = ["vCPUs", "Guest, MFLOPS", "Host, MFLOPS", "Lost", "Host CPU beyond the guest's"]
        head += [f"Here, size {size}, 2 vCPUs: guest", "host", "guest / host"]
        return table(head, rows, "8 13 13 10 14 14 10 18")

    def fio(self, figures: Any) -> list[str]:
        host = {figure["jobs"]: figure for figure in figures["fio_host"]}
        rows = []
        for figure in figures["fio"]:
            same = host.get(figure["jobs"])
            rows.append(
                [
                    str(figure["cpus"]),
                    str(figure["jobs"]),
                    f"{figure['guest']:,}",
                    f"{same['host']:,}" if same else "",
                    f"{figure['guest'] / same['host']:.2f}" if same else "",
                    f"{figure['host_cpu'] / 100 / figure['guest'] * 1e6:.0f}",
                    f"{same['host_cpu'] / 100 / same['host'] * 1e6:.0f}" if same else "",
                    *self.here.cells("fio", jobs=figure["jobs"]),
                ]
            )
        size = self.here.benchmark("fio").get("parameters", {}).get("size", "?")
        head = [
            "vCPUs",
            "Jobs",
            "Guest, IO/s",
            "Host, IO/s",
            "Ratio",
            "Host CPU, µs/IO, guest",
            "Host CPU, µs/IO, host",
            f"Here, 2 vCPUs, {size}: guest, IO/s",
            "host",
            "guest / host",
        ]
        return table(head, rows, "7 7 10 10 8 11 11 14 8 18")

    def iperf(self, figures: Any) -> list[str]:
        found = [
            (figure, {"streams": figure["streams"], "bitrate": 0})
            for figure in figures["iperf"]["streams"]
        ]
        found += [(figure, {"bitrate": figure["mbps"]}) for figure in figures["iperf"]["limited"]]
        rows = []
        for one, parameters in found:
            cpu = self.here.benchmark("iperf3", **parameters).get("host_cpu")
            rows.append(
                [
                    str(one.get("streams", "limited")),
                    str(one["mbps"]),
                    f"{one['guest_client']} and {one['guest_server']}",
                    f"{one['host_client']} and {one['host_server']}",
                    *self.here.cells("iperf3", **parameters),
                    percent(cpu),
                ]
            )
        head = [
            "Streams",
            "Mbit/s",
            "CPU in client and server guest, %",
            "CPU of both on the host, %",
        ]
        head += [
            "Here, Mbit/s: guest",
            "host",
            "guest / host",
            "CPU of both guests on the host, %",
        ]
        return table(head, rows, "9 9 16 16 12 9 18 13")

    def tpcc(self, figures: Any) -> list[str]:
        rows = []
        here = self.here.benchmark("tpcc")
        for figure in figures["tpcc"]:
            low, high = figure["host_cpu"]
            rows.append(
                [
                    str(figure["cpus"]),
                    f"{figure['guest_cpu']}",
                    f"{low} to {high}",
                    *(percent(here.get(name)) for name in ("guest_busy", "host_cpu")),
                    *self.here.cells("tpcc"),
                ]
            )
        head = ["vCPUs", "CPU in the guest, %", "Its KVM process, %"]
        head += [
            "Here, 2 vCPUs: CPU in the guest, %",
            "its QEMU, %",
            "New-Orders a minute: guest",
            "host",
        ]
        head.append("guest / host")
        return table(head, rows, "7 12 14 16 12 14 10 18")

    def netperf(self, figures: Any) -> list[str]:
        rows = []
        for figure in figures["netperf"]:
            [whole] = [
                other["gbps"]
                for other in figures["netperf"]
                if other["path"] == "dom0 to dom0"
                and all(other[key] == figure[key] for key in ("system", "tuned"))
            ]
            like = figure["path"] == "guest to guest"
            rows.append(
                [
                    f"{figure['system']}{', tuned' if figure['tuned'] else ''}",
                    figure["path"],
                    f"{figure['gbps']}",
                    "" if figure["gbps"] is whole else f"{figure['gbps'] / whole:.2f}",
                    self.here.cells("netperf", test="TCP_STREAM")[2] if like else "",
                    self.here.cells("iperf3", streams=1, bitrate=0)[2] if like else "",
                ]
            )
        head = ["Machine", "Path", "Gbit/s, about", "Of dom0 to dom0"]
        head += ["Here, netperf: guest / host", "Here, iperf3, one stream"]
        return table(head, rows, "28 18 14 16 20 20")

    def measured(self, _figures: Any) -> list[str]:
        lines = []
        for run in self.here.data["runs"]:
            lines += [*output(run["run"]), "", *self.of_run(run["benchmarks"]), ""]
        return lines

    def of_run(self, benchmarks: Any) -> list[str]:
        """Return the table of all figures of a run."""
        rows = []
        for benchmark in benchmarks:
            for figure in benchmark["figures"]:
                name = f"{figure['metric']}, {figure['unit']}"
                cells = [number(figure["host"]), number(figure["guest"]), ratio(figure["ratio"])]
                pairs = str(figure["ratio"][3]) if figure["ratio"] else ""
                rows.append([benchmark["label"], benchmark["guests"], name, *cells, pairs])
        head = ["Benchmark", "Guests", "Figure", "Host", "Guest", "Ratio", "Pairs"]
        return table(head, rows, "24 10 26 12 12 20 6")


def output(run: Mapping[str, Any]) -> list[str]:
    """Return what the page says of a run above its table."""
    text = (
        f"Boots: {run['boots']}, blocks: {run['blocks']}, on {run['created'][:10]}: untuned guests of two"
        f" vCPUs, accelerator {run['accelerator']}, QEMU {run.get('qemu', 'unknown')}"
        f"{'' if run.get('vhost_net') else ', without vhost-net'}; the host has {run['cpus']} CPUs"
        f" ({run.get('cpu_model', 'unknown')}) and had a load average of {run['load_at_start']} when it"
        f" began.{' How boots differ is not in the intervals of one boot.' if run['boots'] == 1 else ''}"
    )
    return wrapped(text, "", "")


PARTS = {"perf-published": Published}
