"""Tables of the published figures, worked out again by this project's own code, beside what was measured here.

``perf-published:: TABLE`` with TABLE one of unixbench, copies, himeno, fio, measured. Figures come from
data/published.yaml and data/measured.yaml beside the pages.
"""

from __future__ import annotations

import pathlib
from typing import Any, ClassVar

import yaml
from code_reference import Generated, table
from sphinx.application import Sphinx

from nova_perf_tuning.bench import copy_table, unixbench

DATA = pathlib.Path(__file__).parents[1] / "data"


class Published(Generated):
    """One table."""

    required_arguments: ClassVar[int] = 1

    def lines(self) -> list[str]:
        for name in ("published", "measured"):
            self.env.note_dependency(str(DATA / f"{name}.yaml"))
        figures = yaml.safe_load((DATA / "published.yaml").read_text(encoding="utf-8"))
        make = {
            "unixbench": self.unixbench,
            "copies": self.copies,
            "himeno": self.himeno,
            "fio": self.fio,
            "measured": self.measured,
        }[self.arguments[0]]
        return make(figures)

    def unixbench(self, figures: Any) -> list[str]:
        reports = [
            unixbench.Report(
                one["version"],
                one["copies"],
                tuple(unixbench.Row(name, *pair) for name, pair in one["tests"].items()),
                one["score"],
            )
            for one in figures["unixbench"]
        ]
        rows = [
            [name, *(f"{next(row.index for row in one.rows if row.test == name):,.2f}" for one in reports)]
            for name in unixbench.TESTS
        ]
        rows.append(["Score", *(f"{one.score:,.3f}" for one in reports)])
        rows.append(["Score as printed", *(f"{one.printed_score:,.1f}" for one in reports)])
        rows.append(
            ["Printed indexes that agree", *(f"{sum(row.agrees() for row in one.rows)} of 12" for one in reports)]
        )
        return table(["Index", *(one["label"] for one in figures["unixbench"])], rows, "28 12 12 12 12 12 12")

    def copies(self, figures: Any) -> list[str]:
        rows = []
        for size, columns in figures["copies"].items():
            made = [copy_table.Column(tuple(one["runs"]), one["mean"], one["percent"]) for one in columns]
            for told, column in zip(columns, made, strict=True):
                share = 100 * column.right_mean / made[0].right_mean
                host = 100 * column.right_mean / made[-1].right_mean
                printed = f"{column.mean:,.0f}; {column.share:.1f} %"
                rows.append(
                    [
                        f"{size} MB",
                        told["label"],
                        f"{column.right_mean:,.2f}",
                        f"{share:.2f} %",
                        printed,
                        f"{host:.1f} %",
                    ]
                )
        head = ["File", "Guest", "Mean of three, bytes/s", "Of the first", "Printed", "Of the host"]
        return table(head, rows, "10 20 20 15 22 13")

    def himeno(self, figures: Any) -> list[str]:
        rows = [
            [
                str(one["cpus"]),
                f"{one['guest_mflops']:,.1f}",
                f"{one['host_mflops']:,.1f}",
                f"{100 * (1 - one['guest_mflops'] / one['host_mflops']):.2f} %",
                f"{one['host_cpu'] - one['guest_cpu']} points",
            ]
            for one in figures["himeno"]
        ]
        return table(
            ["vCPUs", "Guest, MFLOPS", "Host, MFLOPS", "Lost", "Host CPU beyond the guest's"],
            rows,
            "10 20 20 20 30",
        )

    def fio(self, figures: Any) -> list[str]:
        host = {one["jobs"]: one for one in figures["fio_host"]}
        rows = []
        for one in figures["fio"]:
            same = host.get(one["jobs"])
            rows.append(
                [
                    str(one["cpus"]),
                    str(one["jobs"]),
                    f"{one['guest']:,}",
                    f"{same['host']:,}" if same else "",
                    f"{one['guest'] / same['host']:.2f}" if same else "",
                    f"{one['host_cpu'] / 100 / one['guest'] * 1e6:.0f}",
                    f"{same['host_cpu'] / 100 / same['host'] * 1e6:.0f}" if same else "",
                ]
            )
        head = [
            "vCPUs",
            "Jobs",
            "Guest, IO/s",
            "Host, IO/s",
            "Ratio",
            "Host CPU, µs/IO, guest",
            "Host CPU, µs/IO, host",
        ]
        return table(head, rows, "10 10 16 16 12 18 18")

    def measured(self, _figures: Any) -> list[str]:
        data = yaml.safe_load((DATA / "measured.yaml").read_text(encoding="utf-8"))
        rows = [[str(cell) for cell in row] for row in data["rows"]]
        return [
            data["about"],
            "",
            *table(["Benchmark", "Figure", "Host", "Guest (TCG)", "Ratio", "Trials"], rows, "22 24 16 16 12 10"),
        ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("perf-published", Published)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
