# SPDX-License-Identifier: Apache-2.0
"""Tables of what host work on a guest's CPU costs: ``perf-placement TABLE``, loss, tail, work or run.

Figures come from data/placement.json, which ``python -m tests.benchmarks interference --output`` writes.
"""

import collections
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from code_reference import Generated, table, wrapped

FILE = pathlib.Path(__file__).parents[1] / "source/data/placement.json"
#: States and channels of the file -> their words, in the order of the page.
STATES = {
    "default": "default",
    "misplaced": "misplaced",
    "applied": "after apply",
    "restored": "after restore",
    "irqbalance": "irqbalance",
    "irqbalance_bans": "irqbalance without CPU 1",
    "cpu0": "all on CPU 0",
}
CHANNELS = {
    "idle": "none",
    "rps": "RPS",
    "rps_flood": "RPS, flooded",
    "napi": "threaded NAPI",
    "workqueue": "unbound work",
    "emulator": "emulator thread",
}
#: Channel -> unit of what its load does in a second, and by how much a figure is divided.
WORK = {
    "rps": ("thousand packets", 1e3),
    "rps_flood": ("thousand packets", 1e3),
    "napi": ("thousand packets", 1e3),
    "workqueue": ("MB", 1e6),
    "emulator": ("pieces of work", 1.0),
}
Row = Mapping[str, Any]


def loss(row: Row) -> str:
    """Return the loss of events in percent, with its interval."""
    median, low, high = (
        f"{round(row[name], 1) + 0.0:.1f}"
        for name in ("loss_percent", "low_percent", "high_percent")
    )
    return f"{median} ({low} to {high})"


def tail(row: Row) -> str:
    """Return p99, p99.9 and the longest of all events."""
    return f"{row['p99_ms']:.2f}, {row['p999_ms']:.2f}, {row['longest_ms']:.1f}"


def work(row: Row) -> str:
    """Return what the load did in a second; empty: there is no load."""
    if row["channel"] not in WORK:
        return ""
    unit, divisor = WORK[row["channel"]]
    return f"{row['done_per_s'] / divisor:,.0f} {unit}"


CELLS: Mapping[str, Callable[[Row], str]] = {"loss": loss, "tail": tail, "work": work}


class Placement(Generated):
    """One table, or the run that it is of."""

    def lines(self) -> list[str]:
        [name] = self.arguments
        if not FILE.exists():
            if name != "run":
                return []
            return [*wrapped("No run is recorded so far. This command makes one:", "", ""), ""]
        results = json.loads(FILE.read_text(encoding="utf-8"))
        if name == "run":
            return self.run(results)
        return self.table(results, CELLS[name])

    @staticmethod
    def table(results: Any, cell: Callable[[Row], str]) -> list[str]:
        rows = {(row["channel"], row["state"]): row for row in results["table"]}
        measured = {state for _channel, state in rows}
        states = [state for state in STATES if state in measured]
        lines = []
        for channel, title in CHANNELS.items():
            cells = [title]
            for state in states:
                row = rows.get((channel, state))
                text = ""
                if row is not None:
                    text = cell(row)
                cells.append(text)
            if any(cells[1:]):
                lines.append(cells)
        widths = " ".join(["10"] * (len(states) + 1))
        return table(["Load", *[STATES[state] for state in states]], lines, widths)

    @staticmethod
    def run(results: Any) -> list[str]:
        irqbalance = "no irqbalance"
        if results["irqbalance"]:
            irqbalance = results["irqbalance"]
        text = (
            f"Measured on {results['created'][:10]} with Linux {results['kernel']}, "
            f"{results['cpus']} CPUs ({results['cpu_model']}), {irqbalance}. "
            f"{len(results['rounds'])} rounds of {results['window_s']:g} s in "
            f"{results['blocks']} blocks; {results['discarded']} were discarded because the "
            f"hypervisor took more than 2 % of a CPU."
        )
        lines = [*wrapped(text, "", ""), ""]
        for state in STATES:
            for note, times in collections.Counter(results["notes"].get(state, ())).items():
                lines += wrapped(f"{STATES[state]}: {note} ({times} times)", "* ", "  ")
        return [*lines, "", *wrapped("Repeat it with this command:", "", ""), ""]


PARTS = {"perf-placement": Placement}
