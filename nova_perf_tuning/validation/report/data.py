# SPDX-License-Identifier: Apache-2.0
"""Verdicts and figures as JSON: each text with its code and parameters beside it, in ``details``."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from nova_perf_tuning.validation.judge import ablation, verdict
from nova_perf_tuning.validation.judge import capacity as capacity_module
from nova_perf_tuning.validation.measure import model, reasons
from nova_perf_tuning.validation.report import diagnosis, summary, text


def of(reason: reasons.Reason) -> dict[str, Any]:
    """Return a reason but for its English: its code, its parameters, and its notes."""
    params = {key: list(map(of, value)) if key == "why" else value for key, value in reason.params.items()}
    document: dict[str, Any] = {"code": reason.code.value, "params": params}
    return document | ({"notes": list(map(of, reason.notes))} if reason.notes else {})


def line(name: str, some: Iterable[reasons.Reason | None]) -> dict[str, Any]:
    """Return reasons as one line under ``name``, and as data beside it."""
    known = [reason for reason in some if reason is not None]
    return {name: text.lines(known), f"{name}_details": list(map(of, known))}


def lines(name: str, some: Iterable[reasons.Reason]) -> dict[str, Any]:
    """Return reasons as lines under ``name``, and as data beside them."""
    known = list(some)
    return {name: list(map(text.of, known)), f"{name.removesuffix('s')}_details": list(map(of, known))}


def judgement(judged: verdict.Judgement) -> dict[str, Any]:
    """Return the verdict on a budget: each of its ``reasons`` in English, and as data in ``details``."""
    document = dataclasses.asdict(judged) | {"by_cpu": judged.by_cpu, "open": judged.open}
    return document | {"reasons": list(map(text.of, judged.reasons)), "details": list(map(of, judged.reasons))}


def knob(measured_knob: ablation.Knob) -> dict[str, Any]:
    document = dataclasses.asdict(measured_knob)
    for label, finding in measured_knob.findings.items():
        document["findings"][label] |= {"notes": list(map(text.of, finding.notes))}
        document["findings"][label] |= {"details": list(map(of, finding.notes))}
    return document


def capacity(measured: capacity_module.Capacity) -> dict[str, Any]:
    document = dataclasses.asdict(measured)
    del document["notes"]
    return document | {"note": text.lines(measured.notes), "details": list(map(of, measured.notes))}


def benchmark(measured: summary.BenchmarkSummary) -> dict[str, Any]:
    document = dataclasses.asdict(measured)
    for row, arm in zip(document["arms"], measured.arms, strict=True):
        row |= line("full_invalid", [arm.full_invalid]) | line("cpu_invalid", [arm.cpu_invalid])
        row["excluded"] = [[order, text.of(why)] for order, why in arm.excluded]
        row["excluded_details"] = [[order, of(why)] for order, why in arm.excluded]
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
    """Return what judgements, knobs of an ablation and findings of guests say, each text with its details."""
    whole = diagnosis.diagnose(results, judged)
    return {
        "culprit": whole.culprit if whole else "",
        **lines("actions", whole.actions if whole else ()),
        "judgements": list(map(judgement, judged)),
        "knobs": list(map(knob, knobs)),
        "findings": diagnosis.guest_findings(results),
        "finding_details": [
            {"arm": name, **dataclasses.asdict(finding)}
            for name, arm in results.environment.arms.items()
            for finding in arm.findings
        ],
        **line("headline", [whole.headline] if whole else []),
    }
