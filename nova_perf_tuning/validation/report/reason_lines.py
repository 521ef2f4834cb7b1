# SPDX-License-Identifier: Apache-2.0
"""Reasons as JSON: their English, and beside it their codes and parameters."""

from collections.abc import Iterable
from typing import Any

from nova_perf_tuning.validation.results import messages, reasons


def of(reason: reasons.Reason) -> dict[str, Any]:
    """Return a reason without its English: its code, its parameters, and its notes."""
    params = dict(reason.params)
    if "why" in params:
        params["why"] = [of(why) for why in params["why"]]
    document: dict[str, Any] = {"code": reason.code.value, "params": params}
    if reason.notes:
        document["notes"] = [of(note) for note in reason.notes]
    return document


def line(name: str, some: Iterable[reasons.Reason | None]) -> dict[str, Any]:
    """Return reasons as one line under ``name``, and as data beside it."""
    known = [reason for reason in some if reason is not None]
    return {name: messages.lines(known), f"{name}_details": list(map(of, known))}


def lines(name: str, some: Iterable[reasons.Reason]) -> dict[str, Any]:
    """Return reasons as lines under ``name``, and as data beside them."""
    known = list(some)
    details = f"{name.removesuffix('s')}_details"
    return {name: list(map(messages.of, known)), details: list(map(of, known))}
