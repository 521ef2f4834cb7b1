# SPDX-License-Identifier: Apache-2.0
"""Tables of what host work on a guest's CPU costs: ``perf-placement TABLE``.

TABLE is loss, memory, wait, arrived, work, tail or run.

Figures come from data/placement.json, which ``python -m tests.benchmarks interference --output`` writes.
"""

import collections
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from code_reference import Generated, table, wrapped

from nova_perf_tuning.host.kinds import registry

FILE = pathlib.Path(__file__).parents[1] / "source/data/placement.json"
#: States and channels of the file -> their words, in the order of the page.
STATES = {
    "default": "default",
    "misplaced": "misplaced",
    "applied": "after apply",
    "restored": "after restore",
    "default_applied": "apply from the default",
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
    "emulator_light": "emulator thread, a tenth",
    "emulator": "emulator thread, a quarter",
    "all": "all at once",
}
#: Channel -> unit of what its load does in a second, and by how much a figure is divided.
WORK = {
    "rps": ("thousand packets", 1e3),
    "rps_flood": ("thousand packets", 1e3),
    "napi": ("thousand packets", 1e3),
    "workqueue": ("MB", 1e6),
    "emulator_light": ("pieces of work", 1.0),
    "emulator": ("pieces of work", 1.0),
}
Row = Mapping[str, Any]


def with_interval(row: Row, prefix: str) -> str:
    """Return a loss of events in percent, with its interval; empty: there were no such events."""
    names = [f"{prefix}{name}_percent" for name in ("loss", "low", "high")]
    if names[0] not in row:
        return ""
    median, low, high = [f"{round(row[name], 1) + 0.0:.1f}" for name in names]
    return f"{median} ({low} to {high})"


def loss(row: Row) -> str:
    """Return the loss of events that calculate."""
    return with_interval(row, "")


def memory(row: Row) -> str:
    """Return the loss of events that touch memory."""
    return with_interval(row, "memory_")


def wait(row: Row) -> str:
    """Return the share of time for which the vCPU waited for its CPU, in percent."""
    return f"{100 * row['vcpu_wait']:.1f}"


def arrived(row: Row) -> str:
    """Return thousands of packets that CPU 1 worked on in a second, and of interrupts of RPS."""
    if "cpu1_packets_per_s" not in row:
        return ""
    return f"{row['cpu1_packets_per_s'] / 1e3:.1f}, {row['cpu1_rps_per_s'] / 1e3:.1f}"


def tail(row: Row) -> str:
    """Return p99, p99.9 and the longest of all events."""
    return f"{row['p99_ms']:.2f}, {row['p999_ms']:.2f}, {row['longest_ms']:.1f}"


def work(row: Row) -> str:
    """Return what each load did in a second; empty: there is no load."""
    done = dict(row.get("done_each_per_s", {}))
    if "done_per_s" in row:
        done = {row["channel"]: row["done_per_s"]}
    parts = []
    for channel, amount in done.items():
        unit, divisor = WORK[channel]
        parts.append(f"{amount / divisor:,.0f} {unit}")
    return ", ".join(parts)


CELLS: Mapping[str, Callable[[Row], str]] = {
    "loss": loss,
    "memory": memory,
    "wait": wait,
    "arrived": arrived,
    "work": work,
    "tail": tail,
}


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
        if not lines:
            return [*wrapped("The run that is shown does not have these figures.", "", ""), ""]
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


#: Kind of a setting -> what a guest lost while one load worked, as found and after apply; channels of the file.
MEASURED_CHANNELS = {
    "rps": ("rps", "rps_flood"),
    "host_cpus": ("workqueue",),
    "thread_affinity": ("emulator", "napi"),
}
_LAB = "on an emulated host, with the other places of the agent only: :ref:`placement-lab`"
#: Kind of a setting -> what else was measured; empty: nothing.
MEASURED_OTHERWISE = {
    "channels": "",
    "config_file": "",
    "governor": "",
    "host_cpus": "Its other targets were not measured.",
    "irq_affinity": f"Measured {_LAB}.",
    "irqbalance_ban": "Not measured by itself. What irqbalance alone does was measured: "
    ":ref:`placement-lab`.",
    "kernel_thread_affinity": "",
    "memory": "",
    "offload": "",
    "ring": "",
    "rps": "",
    "sysctl": "",
    "thread_affinity": f"Threads of vhost: {_LAB}.",
    "xps": "",
}


class Measured(Generated):
    """What was measured of each kind of setting; a kind of ours that is not in the table above is an error."""

    def lines(self) -> list[str]:
        results = json.loads(FILE.read_text(encoding="utf-8"))
        rows = {(row["channel"], row["state"]): row for row in results["table"]}
        cells = []
        for kind in sorted(registry.kinds()):
            texts = []
            for channel in MEASURED_CHANNELS.get(kind, ()):
                texts.append(self.channel(channel, rows))
            if MEASURED_OTHERWISE[kind]:
                texts.append(MEASURED_OTHERWISE[kind])
            if not texts:
                texts = ["Not measured."]
            cells.append([f"``{kind}``", "\n\n".join(texts)])
        return table(["Kind", "Measured"], cells, "20 80")

    @staticmethod
    def channel(name: str, rows: Mapping[tuple[str, str], Row]) -> str:
        found, after = [with_interval(rows[name, state], "") for state in ("misplaced", "applied")]
        if rows[name, "misplaced"]["low_percent"] <= 0:
            return (
                f"{CHANNELS[name]}: nothing to gain. A guest lost {found} % of its events where this "
                f"was misplaced, which is not certain: :ref:`placement-channels`."
            )
        return (
            f"{CHANNELS[name]}: a guest lost {found} % of its events where this was misplaced, and "
            f"{after} % after ``nova-perf apply``: :ref:`placement-channels`."
        )


PARTS = {"perf-placement": Placement, "perf-settings-measured": Measured}
