# SPDX-License-Identifier: Apache-2.0
"""From rounds to figures: what a guest lost in each state while one load worked.

Loss is against the median of the idle rounds of the same block. Of the blocks the median is shown, with its exact
interval: two of their values in order (David and Nagaraja, Order Statistics, 7.1).
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

CONFIDENCE = 0.95
IDLE = "idle"


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return low, high and confidence of the median: as narrow as :data:`CONFIDENCE` allows.

    Of five values and fewer the whole range has less confidence than that; it says how much.
    """
    ordered = sorted(values)
    number = len(ordered)
    rank = 1
    outside = 2 / 2**number  # that all values are on one side of the median
    while True:
        more = outside + 2 * math.comb(number, rank) / 2**number
        if 1 - more < CONFIDENCE:
            break
        outside = more
        rank += 1
    return ordered[rank - 1], ordered[number - rank], max(0.0, 1 - outside)


def table(rounds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each channel and state, of the rounds that are not discarded."""
    idle: dict[int, list[float]] = {}
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in rounds:
        if one["discarded"]:
            continue
        groups.setdefault((one["channel"], one["state"]), []).append(one)
        if one["channel"] == IDLE:
            idle.setdefault(one["block"], []).append(one["events_per_s"])
    rows = []
    for (channel, state), members in groups.items():
        row = _row(members, idle)
        if row:
            rows.append({"channel": channel, "state": state, **row})
    return rows


def _row(
    members: Sequence[Mapping[str, Any]], idle: Mapping[int, Sequence[float]]
) -> dict[str, Any]:
    """Return the figures of one channel in one state; empty: no block has anything to compare with.

    :param idle: block -> events per second without a load.
    """
    losses: list[float] = []
    others: dict[str, list[float]] = {}
    for one in members:
        if one["block"] not in idle:
            continue
        losses.append(100 * (1 - one["events_per_s"] / statistics.median(idle[one["block"]])))
        for name in ("p99_ms", "p999_ms", "longest_ms", "vcpu_wait", "done_per_s"):
            if name in one:
                others.setdefault(name, []).append(one[name])
    if not losses:
        return {}
    low, high, confidence = interval(losses)
    row = {
        "rounds": len(losses),
        "loss_percent": round(statistics.median(losses), 1),
        "low_percent": round(low, 1),
        "high_percent": round(high, 1),
        "confidence": round(confidence, 3),
    }
    for name, values in others.items():
        row[name] = round(statistics.median(values), 4)
    row["longest_ms"] = max(others["longest_ms"])
    return row
