# SPDX-License-Identifier: Apache-2.0
"""From rounds to figures: what a guest lost in each state while one load worked.

Loss is against the idle rounds of the same state in the same block; that of an idle round is against all idle rounds
of its block. Of the blocks the median is shown, with its exact interval: two of their values in order (David and
Nagaraja, Order Statistics, 7.1).
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

CONFIDENCE = 0.95
IDLE = "idle"
#: Figures of a round of which a row has the median.
MEDIANS = (
    "p99_ms",
    "p999_ms",
    "vcpu_wait",
    "done_per_s",
    "emulator_busy",
    "cpu1_packets_per_s",
    "cpu1_rps_per_s",
    "cpu1_streams",
)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return low, high and confidence of the median: as narrow as :data:`CONFIDENCE` allows.

    Of five values and fewer the whole range has less confidence than that; it says how much.
    """
    ordered = sorted(values)
    number = len(ordered)
    rank = 1
    outside = 2 / 2**number  # that all values are on measured side of the median
    while True:
        more = outside + 2 * math.comb(number, rank) / 2**number
        if 1 - more < CONFIDENCE:
            break
        outside = more
        rank += 1
    return ordered[rank - 1], ordered[number - rank], max(0.0, 1 - outside)


def table(rounds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each channel and state, of the rounds that are not discarded."""
    idle: list[Mapping[str, Any]] = []
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for measured in rounds:
        if measured["discarded"]:
            continue
        groups.setdefault((measured["channel"], measured["state"]), []).append(measured)
        if measured["channel"] == IDLE:
            idle.append(measured)
    rows = []
    for (channel, state), members in groups.items():
        row = _row(members, idle)
        if row:
            rows.append({"channel": channel, "state": state, **row})
    return rows


def _compared(
    measured: Mapping[str, Any], idle: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the idle rounds that a round is compared with."""
    found = []
    for other in idle:
        is_state = measured["channel"] == IDLE or other["state"] == measured["state"]
        if other["block"] == measured["block"] and is_state:
            found.append(other)
    return found


def _loss(measured: Mapping[str, Any], idle: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return which share of the events of a kind is missing in a round, in percent."""
    idle_rates = [other[name] for other in _compared(measured, idle)]
    return float(100 * (1 - measured[name] / statistics.median(idle_rates)))


def _in_percent(losses: Sequence[float], prefix: str) -> dict[str, float]:
    """Return the median of losses, one for each block, and its interval."""
    low, high, _confidence = interval(losses)
    return {
        f"{prefix}loss_percent": round(statistics.median(losses), 1),
        f"{prefix}low_percent": round(low, 1),
        f"{prefix}high_percent": round(high, 1),
    }


def ranking(rounds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the states, that with the least of its worst loss first; both figures are over all loads of a block.

    ``worst`` is the largest loss of a block, ``median`` the middle measured, of the loads with a round that counts;
    a block in which half of the loads have none is left out. ``loads`` says how often each load was the worst.
    """
    kept = [measured for measured in rounds if not measured["discarded"]]
    idle = [measured for measured in kept if measured["channel"] == IDLE]
    loads = {measured["channel"] for measured in rounds} - {IDLE}
    blocks: dict[tuple[str, int], dict[str, float]] = {}
    for measured in kept:
        if measured["channel"] in loads and _compared(measured, idle):
            losses = blocks.setdefault((measured["state"], measured["block"]), {})
            losses[measured["channel"]] = _loss(measured, idle, "events_per_s")
    states: dict[str, list[dict[str, float]]] = {}
    for (state, _block), losses in blocks.items():
        if 2 * len(losses) > len(loads):
            states.setdefault(state, []).append(losses)
    found = []
    for state, of_blocks in states.items():
        worst = [max(losses.values()) for losses in of_blocks]
        middle = [statistics.median(losses.values()) for losses in of_blocks]
        names = [max(losses, key=losses.__getitem__) for losses in of_blocks]
        counted = {name: names.count(name) for name in sorted(set(names))}
        figures = {**_in_percent(worst, "worst_"), **_in_percent(middle, "median_")}
        found.append({"state": state, "blocks": len(of_blocks), **figures, "loads": counted})
    return sorted(found, key=lambda row: (row["worst_loss_percent"], row["state"]))


def _row(
    members: Sequence[Mapping[str, Any]], idle: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the figures of one channel in one state; empty: there is nothing to compare with."""
    kept = [measured for measured in members if _compared(measured, idle)]
    if not kept:
        return {}
    row: dict[str, Any] = {"rounds": len(kept)}
    for prefix in ("", "memory_"):
        name = f"{prefix}events_per_s"
        if name not in kept[0]:  # the first runs had no events of memory
            continue
        losses = [_loss(measured, idle, name) for measured in kept]
        row |= _in_percent(losses, prefix)
        row["confidence"] = round(interval(losses)[2], 3)
    for name in MEDIANS:
        if name in kept[0]:
            row[name] = round(statistics.median([measured[name] for measured in kept]), 4)
    row["longest_ms"] = max(measured["longest_ms"] for measured in kept)
    done: dict[str, float] = {}
    for name in kept[0].get("done_each_per_s", ()):
        done[name] = statistics.median([measured["done_each_per_s"][name] for measured in kept])
    if done:
        row["done_each_per_s"] = done
    return row
