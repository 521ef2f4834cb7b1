# SPDX-License-Identifier: Apache-2.0
"""Tables of what host work on a guest's CPU costs: ``perf-placement TABLE``.

TABLE is loss, work, ranking or run. A table of loss or work has one part for each load, with the states in its rows.

Figures come from data/placement.json, which ``python -m tests.benchmarks interference --output`` writes.
"""

import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
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
    "tuned": "TuneD",
    "cpu0": "all on CPU 0",
}
CHANNELS = {
    "idle": "none",
    "rps": "RPS",
    "rps_flood": "RPS, flooded",
    "rps_tcp": "RPS, eight TCP streams",
    "napi": "threaded NAPI",
    "workqueue": "unbound work",
    "emulator_light": "emulator thread, an eighth",
    "emulator": "emulator thread, a third",
    "all": "all at once",
}
#: Channel -> unit of what its load does in a second, and by how much a figure is divided.
WORK = {
    "rps": ("thousand packets", 1e3),
    "rps_flood": ("thousand packets", 1e3),
    "rps_tcp": ("MB", 1e6),
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


def done(row: Row) -> dict[str, float]:
    """Return what each load did in a second, by its channel; empty: there is no load."""
    if "done_per_s" in row:
        return {row["channel"]: row["done_per_s"]}
    return dict(row.get("done_each_per_s", {}))


def work(row: Row) -> str:
    """Return what each load did in a second, with the least and the most of its rounds."""
    parts = []
    for channel, amount in done(row).items():
        rounds = [done(measured)[channel] for measured in row["of_rounds"]]
        divided = WORK[channel][1]
        middle, least, most = [value / divided for value in (amount, min(rounds), max(rounds))]
        parts.append(f"{middle:,.0f} ({least:,.0f} to {most:,.0f})")
    return ", ".join(parts)


#: Table -> its columns after that of the states.
COLUMNS: Mapping[str, Mapping[str, Callable[[Row], str]]] = {
    "loss": {"Loss, %": loss, "Loss in memory, %": memory, "Wait, %": wait},
    "work": {"Done": work, "At CPU 1": arrived, "Times, ms": tail},
}


def simple_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a simple table, which reads well as text, too."""
    widths = []
    for column in zip(header, *rows, strict=True):
        widths.append(max(len(cell) for cell in column))
    rule = "  ".join("=" * width for width in widths)
    lines = [rule]
    for number, row in enumerate([header, *rows]):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append(rule)
    return [*lines, rule, ""]


def _merged(notes: Sequence[str]) -> list[tuple[str, int]]:
    """Return notes that differ in numbers only as one with their ranges, and how often it was made."""
    alike: dict[str, list[str]] = {}
    for note in notes:
        alike.setdefault(re.sub(r"\d+", "{}", note), []).append(note)
    found = []
    for text, members in alike.items():
        ranges = []
        for numbers in zip(*[re.findall(r"\d+", note) for note in members], strict=True):
            low, high = min(map(int, numbers)), max(map(int, numbers))
            ranges.append(str(low) if low == high else f"{low} to {high}")
        found.append((text.format(*ranges), len(members)))
    return found


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
        if name == "ranking":
            return self.ranking(results)
        return self.table(results, name)

    @staticmethod
    def table(results: Any, name: str) -> list[str]:
        rows = {(row["channel"], row["state"]): dict(row) for row in results["table"]}
        for measured in results["rounds"]:
            if not measured["discarded"]:
                row = rows[measured["channel"], measured["state"]]
                row.setdefault("of_rounds", []).append(measured)
        lines = []
        for channel, title in CHANNELS.items():
            cells = []
            for state, words in STATES.items():
                row = rows.get((channel, state))
                if row is not None:
                    cells.append([words, *[cell(row) for cell in COLUMNS[name].values()]])
            if not cells or (name == "work" and channel == "idle"):
                continue
            loads = [channel] if channel in WORK else []
            if channel == "all":
                loads = list(results["together"])
            heading = f"*{title}*"
            if name == "work":
                units = ", ".join(WORK[load][0] for load in loads)
                heading = f"{heading}. Done: {units} a second"
            lines += [*wrapped(f"{heading}:", "", ""), ""]
            lines += simple_table(["State", *COLUMNS[name]], cells)
        return lines

    @staticmethod
    def ranking(results: Any) -> list[str]:
        rows = results.get("ranking", ())
        if not rows:
            return [*wrapped("The run that is shown does not have these figures.", "", ""), ""]
        cells = []
        for row in rows:
            [(worst, times), *_others] = sorted_by_times(row["loads"])
            usual = CHANNELS[worst] if 2 * times > row["blocks"] else "no load"
            shown = [with_interval(row, prefix) for prefix in ("worst_", "median_")]
            cells.append([STATES[row["state"]], *shown, usual, str(row["blocks"])])
        header = ["State", "Worst load, %", "Median of the loads, %", "Mostly the worst", "Blocks"]
        return simple_table(header, cells)

    @staticmethod
    def run(results: Any) -> list[str]:
        programs = [results["irqbalance"] or "no irqbalance"]
        if "tuned" in results:
            programs.append(results["tuned"] or "no TuneD")
        text = (
            f"Measured on {results['created'][:10]} with Linux {results['kernel']}, "
            f"{results['cpus']} CPUs ({results['cpu_model']}), {', '.join(programs)}. "
            f"{len(results['rounds'])} rounds of {results['window_s']:g} s in "
            f"{results['blocks']} blocks; {results['discarded']} were discarded because the "
            f"hypervisor took more than 2 % of a CPU."
        )
        lines = [*wrapped(text, "", ""), ""]
        for row in results["table"]:
            if (row["channel"], row["state"]) == ("rps_tcp", "misplaced"):
                streams = (
                    f"RPS dealt {row['cpu1_streams']:g} of the eight TCP streams to CPU 1 (median "
                    f"of the blocks where it was misplaced)."
                )
                lines += [*wrapped(streams, "", ""), ""]
        for state in STATES:
            for note, times in _merged(results["notes"].get(state, ())):
                lines += wrapped(f"{STATES[state]}: {note} ({times} times)", "* ", "  ")
        return [*lines, "", *wrapped("Repeat it with this command:", "", ""), ""]


def sorted_by_times(loads: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return loads and how often each was the worst, the most frequent first."""
    return sorted(loads.items(), key=lambda item: (-item[1], item[0]))


#: Kind of a setting -> what a guest lost while one load worked, as found and after apply; channels of the file.
MEASURED_CHANNELS = {
    "rps": ("rps", "rps_flood", "rps_tcp"),
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
    "irqbalance_ban": "Not measured by itself. What irqbalance alone does was measured, also with "
    "a ban: :ref:`placement-channels`, :ref:`placement-lab`.",
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
                if (channel, "applied") in rows:
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
                f"{CHANNELS[name]}: not seen. The kernel left this work on the host's CPU, so that "
                f"neither a loss nor a gain was measured: a guest calculated {found} % slower: "
                f":ref:`placement-channels`."
            )
        return (
            f"{CHANNELS[name]}: a guest calculated {found} % slower where this was misplaced, and "
            f"{after} % after ``nova-perf apply``: :ref:`placement-channels`."
        )


PARTS = {"perf-placement": Placement, "perf-settings-measured": Measured}
