# SPDX-License-Identifier: Apache-2.0
"""Measured figures as text: three significant digits, intervals, and the table that ends a validation."""

from collections.abc import Sequence

from nova_perf_tuning.cli import command
from nova_perf_tuning.validation.environment import FleetHost
from nova_perf_tuning.validation.judge import ablation, verdict
from nova_perf_tuning.validation.measure import model
from nova_perf_tuning.validation.report import diagnosis, summary, text

_RATIO = (
    "ratio: median of the ratios within each block, where a drift of the host cancels out, and turned so that more"
    " than 1 is better; it is not the ratio of the medians beside it and may even point the other way"
)


def print_summary(results: model.Results, summaries: Sequence[summary.BenchmarkSummary]) -> None:
    """Print a row per benchmark and arm, what a ratio is, all in one sentence, and what to beware of."""
    rows: list[tuple[str, ...]] = []
    for benchmark in summaries:
        for arm in benchmark.arms:
            ratios = {pair.baseline: pair.ratio for pair in benchmark.comparisons if pair.arm == arm.arm}
            first = next((baseline for baseline in ratios if baseline != model.HOST), None)
            median = f"{text.number(arm.median.value)} {benchmark.unit}" if arm.median else "-"
            failed = f" ({arm.failed} failed)" if arm.failed else ""
            excluded = f" ({len(arm.excluded)} excluded)" if arm.excluded else ""
            ratio = f"{first}: {text.ratio(ratios[first])}" if first else "-"
            service = arm.service_per_unit
            cost = f"{text.number(service.value * 1e3)} ms/{benchmark.work_unit}" if service else "-"
            trials, to_host = f"{arm.n}{failed}{excluded}", text.ratio(ratios.get(model.HOST))
            rows.append((benchmark.label, arm.arm, median, trials, ratio, to_host, cost))
    head = ("benchmark", "arm", "median", "trials", "ratio to", "ratio to host", "service CPU")
    print()
    command.print_table(head, rows)
    if any(pair.ratio is not None for benchmark in summaries for pair in benchmark.comparisons):
        command.say(_RATIO)
    command.say("", text.of(summary.headline(summaries)))
    notes = map(text.of, summary.notes(results, summaries))
    command.say(*notes, *text.cautions(summaries), prefix="note: ")


def print_paths(results: str, report: str) -> None:
    command.say("", f"results: {results}", f"report: {report}")


def print_findings(results: model.Results) -> None:
    command.say(*diagnosis.guest_findings(results), prefix="warning: guests of ")


def print_verdicts(judgements: Sequence[verdict.Judgement]) -> None:
    rows = []
    for judgement in judgements:
        budget = judgement.budget
        for word, why in judgement.verdicts_and_reasons:
            rows.append((word.value, budget.benchmark, f"{budget.arm} against {budget.baseline}", text.of(why)))
    command.print_table(("verdict", "benchmark", "arms", "why"), rows)


def print_hosts(hosts: Sequence[FleetHost]) -> None:
    rows = []
    for host in hosts:
        word = host.verdict or verdict.Verdict.INCONCLUSIVE.value
        unjudged = "" if host.verdict else "nothing to judge it by: no peers to compare with, no budget"
        why = (*host.reasons, unjudged)[0]
        rows.append((word, host.host, f"{host.measured} of {host.peers}", why))
    command.print_table(("verdict", "host", "peers", "why"), rows)


def print_diagnosis(results: model.Results, judged: Sequence[verdict.Judgement]) -> None:
    """Print the verdict in one sentence and what to do; nothing where there is none."""
    whole = diagnosis.diagnose(results, judged)
    if whole is None:
        return
    command.say("", text.of(whole.headline))
    command.say(*map(text.of, whole.actions), prefix="- ")


def print_ablation(knobs: Sequence[ablation.Knob]) -> None:
    """Print a row per knob and benchmark of an ablation, and what may be removed; nothing without knobs."""
    if not knobs:
        return
    print()
    command.print_table(text.KNOB_HEAD, text.knob_rows(knobs))
    command.say(*text.knob_summary(knobs))
