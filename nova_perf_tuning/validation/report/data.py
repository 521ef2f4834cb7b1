# SPDX-License-Identifier: Apache-2.0
"""Verdicts and figures as JSON; ``details`` have the code and parameters of each text."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from nova_perf_tuning.validation.judge import ablation, verdict
from nova_perf_tuning.validation.judge.capacity import Capacity
from nova_perf_tuning.validation.report import diagnosis, summary
from nova_perf_tuning.validation.results import messages, model, reasons


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


def judgement(judged: verdict.Judgement) -> dict[str, Any]:
    """Return the verdict on a budget: its ``reasons`` in English, and as data in ``details``."""
    document = dataclasses.asdict(judged)
    document["by_cpu"] = judged.by_cpu
    document["open"] = judged.open
    document["reasons"] = list(map(messages.of, judged.reasons))
    document["details"] = list(map(of, judged.reasons))
    return document


def knob(measured_knob: ablation.Knob) -> dict[str, Any]:
    document = dataclasses.asdict(measured_knob)
    for label, finding in measured_knob.findings.items():
        row = document["findings"][label]
        row["notes"] = list(map(messages.of, finding.notes))
        row["details"] = list(map(of, finding.notes))
    return document


def capacity(measured: Capacity) -> dict[str, Any]:
    document = dataclasses.asdict(measured)
    del document["notes"]
    document["note"] = messages.lines(measured.notes)
    document["details"] = list(map(of, measured.notes))
    return document


def benchmark(measured: summary.BenchmarkSummary) -> dict[str, Any]:
    document = dataclasses.asdict(measured)
    for row, arm in zip(document["arms"], measured.arms, strict=True):
        row |= line("full_invalid", [arm.full_invalid])
        row |= line("cpu_invalid", [arm.cpu_invalid])
        row["excluded"] = []
        row["excluded_details"] = []
        for order, why in arm.excluded:
            row["excluded"].append([order, messages.of(why)])
            row["excluded_details"].append([order, of(why)])
    document["comparisons"] = [_comparison(pair) for pair in measured.comparisons]
    for row, figure in zip(document["secondary"], measured.secondary, strict=True):
        row["comparisons"] = [_comparison(pair) for pair in figure.comparisons]
    return document


def _comparison(pair: summary.Comparison) -> dict[str, Any]:
    document = dataclasses.asdict(pair)
    del document["notes"]
    return document | line("excluded", pair.notes) | line("invalid", [pair.invalid])


def verdicts(
    results: model.Results, judged: Sequence[verdict.Judgement], knobs: Sequence[ablation.Knob]
) -> dict[str, Any]:
    """Return what judgements, knobs of an ablation and findings of guests say.

    Each text has its details.
    """
    document: dict[str, Any] = {"culprit": ""}
    headline: list[reasons.Reason] = []
    actions: Sequence[reasons.Reason] = ()
    whole = diagnosis.diagnose(results, judged)
    if whole is not None:
        document["culprit"] = whole.culprit
        headline = [whole.headline]
        actions = whole.actions
    document |= lines("actions", actions)
    document["judgements"] = list(map(judgement, judged))
    document["knobs"] = list(map(knob, knobs))
    document["findings"] = diagnosis.guest_findings(results)
    details: list[dict[str, Any]] = []
    for name, arm in results.environment.arms.items():
        for finding in arm.findings:
            details.append({"arm": name, "code": finding.code, "text": finding.text})
    document["finding_details"] = details
    return document | line("headline", headline)
