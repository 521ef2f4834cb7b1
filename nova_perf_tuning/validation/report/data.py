# SPDX-License-Identifier: Apache-2.0
"""Verdicts and figures as JSON; ``details`` have the code and parameters of each text."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from nova_perf_tuning.validation.judge import ablation, verdict
from nova_perf_tuning.validation.judge.capacity import Capacity
from nova_perf_tuning.validation.report import diagnosis, reason_lines, summary
from nova_perf_tuning.validation.results import messages, model, reasons


def judgement(judged: verdict.Judgement) -> dict[str, Any]:
    """Return the verdict on a budget: its ``reasons`` in English, and as data in ``details``."""
    document = dataclasses.asdict(judged)
    document["by_cpu"] = judged.by_cpu
    document["open"] = judged.open
    document["reasons"] = list(map(messages.of, judged.reasons))
    document["details"] = list(map(reason_lines.of, judged.reasons))
    return document


def knob(measured_knob: ablation.Knob) -> dict[str, Any]:
    document = dataclasses.asdict(measured_knob)
    for label, finding in measured_knob.findings.items():
        row = document["findings"][label]
        row["notes"] = list(map(messages.of, finding.notes))
        row["details"] = list(map(reason_lines.of, finding.notes))
    return document


def capacity(measured: Capacity) -> dict[str, Any]:
    document = dataclasses.asdict(measured)
    del document["notes"]
    document["note"] = messages.lines(measured.notes)
    document["details"] = list(map(reason_lines.of, measured.notes))
    return document


def benchmark(measured: summary.BenchmarkSummary) -> dict[str, Any]:
    document = dataclasses.asdict(measured)
    for row, arm in zip(document["arms"], measured.arms, strict=True):
        row |= reason_lines.line("full_invalid", [arm.full_invalid])
        row |= reason_lines.line("cpu_invalid", [arm.cpu_invalid])
        row["excluded"] = []
        row["excluded_details"] = []
        for order, why in arm.excluded:
            row["excluded"].append([order, messages.of(why)])
            row["excluded_details"].append([order, reason_lines.of(why)])
    document["comparisons"] = [_comparison(pair) for pair in measured.comparisons]
    for row, figure in zip(document["secondary"], measured.secondary, strict=True):
        row["comparisons"] = [_comparison(pair) for pair in figure.comparisons]
    return document


def _comparison(pair: summary.Comparison) -> dict[str, Any]:
    document = dataclasses.asdict(pair)
    del document["notes"]
    return (
        document
        | reason_lines.line("excluded", pair.notes)
        | reason_lines.line("invalid", [pair.invalid])
    )


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
    document |= reason_lines.lines("actions", actions)
    document["judgements"] = list(map(judgement, judged))
    document["knobs"] = list(map(knob, knobs))
    document["findings"] = diagnosis.guest_findings(results)
    details: list[dict[str, Any]] = []
    for name, arm in results.environment.arms.items():
        for finding in arm.findings:
            details.append({"arm": name, "code": finding.code, "text": finding.text})
    document["finding_details"] = details
    return document | reason_lines.line("headline", headline)
