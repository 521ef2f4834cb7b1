"""Names of budgets for other programs: by what tells them apart, no two alike."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning.budget import budget_file

#: What a budget is about.
FIGURE: Final = ("benchmark", "metric", "arm", "baseline")
_LIMITS: Final = ("max_loss", "max_host_cpu_per_unit")
#: What else is worth a label: a reason is too long for one, and guards are the same for a whole file.
_FURTHER: Final = tuple(
    one.name
    for one in dataclasses.fields(budget_file.Budget)
    if one.name not in (*FIGURE, *_LIMITS, "reason", "guards")
)


def distinct(budgets: Sequence[budget_file.Budget]) -> list[dict[str, str]]:
    """Return label -> text for each budget: its figure and its limits, and what tells it from others of the same.

    Those that lack one of the limits have no label for it. Where no field that can be shown tells two apart, all
    but the first have a ``number``.
    """
    found = [{name: _text(budget, name) for name in (*FIGURE, *_LIMITS)} for budget in budgets]
    for labels in found:
        for name in _LIMITS:
            if not labels[name]:
                del labels[name]
    alike: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for place, labels in enumerate(found):
        alike.setdefault(_key(labels), []).append(place)
    for places in alike.values():
        for name in _FURTHER if len(places) > 1 else ():
            texts = {place: _text(budgets[place], name) for place in places}
            if len(set(texts.values())) > 1:
                for place, text in texts.items():
                    found[place][name] = text
    seen: collections.Counter[tuple[tuple[str, str], ...]] = collections.Counter()
    for labels in found:
        key = _key(labels)
        seen[key] += 1
        if seen[key] > 1:
            labels["number"] = str(seen[key])
    return found


def _key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(labels.items())


def printable(text: str) -> str:
    """Return text in which a replacement character stands for what cannot be printed."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _text(budget: budget_file.Budget, name: str) -> str:
    value = getattr(budget, name)
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    # Short as people write it, unless that would hide where two limits differ.
    if isinstance(value, int | float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))
    return printable(str(value))
