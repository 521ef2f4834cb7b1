# SPDX-License-Identifier: Apache-2.0
"""Measured figures as text: three significant digits, intervals, and the table that ends a validation."""

from collections.abc import Sequence

from nova_perf_tuning.cli import command
from nova_perf_tuning.validation.judge import ablation, verdict
from nova_perf_tuning.validation.report import diagnosis, knob_rows, overview, summary, text
from nova_perf_tuning.validation.results import messages, model
from nova_perf_tuning.validation.results.environment import FleetHost

#: Figures of hosts, and hosts, that the tables of a fleet show.
_FIGURES, _HOSTS = 40, 100
_WORST_FIRST = ("FAIL", "INVALID", "INCONCLUSIVE", "PASS")


def print_summary(results: model.Results, summaries: Sequence[summary.BenchmarkSummary]) -> None:
    """Print a row per benchmark and arm, what a ratio is, all in one sentence, and what to beware of."""
    rows: list[tuple[str, ...]] = []
    compared = False
    for benchmark in summaries:
        for arm in benchmark.arms:
            rows.append(_summary_row(benchmark, arm))
        compared = compared or any(pair.ratio is not None for pair in benchmark.comparisons)
    head = ("benchmark", "arm", "figure", "trials", "ratio to", "ratio to host", "service CPU")
    print()
    command.print_known(head, rows)
    if compared:
        command.say(*text.meaning(unpaired=bool(results.environment.unpaired)))
    for label, recorded in results.environment.benchmarks.items():
        command.say(*text.workloads(recorded), prefix=f"work of {label} on ")
    command.say("", messages.of(summary.headline(summaries)))
    for note in summary.notes(results, summaries):
        command.say(f"note: {messages.of(note)}")
    command.say(*text.cautions(summaries), prefix="note: ")


def print_fleet(results: model.Results, summaries: Sequence[summary.BenchmarkSummary]) -> None:
    """Print what each host measured, the slowest first, and what to beware of."""
    rows: list[tuple[str, ...]] = []
    for figure in overview.host_figures(results):
        share = "-"
        if figure.against_median is not None:
            share = f"{figure.against_median:.0%}"
        value = f"{text.number(figure.median)} {figure.unit}"
        rows.append((figure.host, figure.benchmark, figure.arm, value, share, str(figure.pairs)))
    head = ("host", "benchmark", "arm", "best pair", "of the median host", "pairs")
    print()
    command.print_table(head, rows, most=_FIGURES)
    if summary.has_ratios(summaries):
        command.say("", messages.of(summary.headline(summaries)))
    for note in summary.notes(results, summaries):
        command.say(f"note: {messages.of(note)}")
    command.say(*text.cautions(summaries), prefix="note: ")


def _summary_row(benchmark: summary.BenchmarkSummary, arm: summary.ArmSummary) -> tuple[str, ...]:
    """Return an arm's figures with their units, ``-`` where there is none."""
    median = ratio = cost = "-"
    if arm.median:
        median = f"{text.number(arm.median.value)} {benchmark.unit}"
    trials = str(arm.n)
    if arm.failed:
        trials += f" ({arm.failed} failed)"
    if arm.excluded:
        trials += f" ({len(arm.excluded)} excluded)"
    to_host = None
    for pair in benchmark.comparisons:
        if pair.arm != arm.arm:
            continue
        if pair.baseline == model.HOST:
            to_host = pair.ratio
        elif ratio == "-":
            ratio = f"{pair.baseline}: {text.ratio(pair.ratio)}"
    if arm.service_per_unit:
        cost = f"{text.number(arm.service_per_unit.value * 1e3)} ms/{benchmark.work_unit}"
    return benchmark.label, arm.arm, median, trials, ratio, text.ratio(to_host), cost


def print_paths(results: str, report: str) -> None:
    command.say("", f"results: {results}", f"report: {report}")


def print_findings(results: model.Results) -> None:
    command.say(*diagnosis.guest_findings(results), prefix="warning: guests of ")


def print_verdicts(judgements: Sequence[verdict.Judgement]) -> None:
    rows = []
    for judgement in judgements:
        budget = judgement.budget
        for word, why in judgement.verdicts_and_reasons:
            rows.append(
                (
                    word.value,
                    budget.benchmark,
                    budget.named_arms,
                    messages.of(why),
                )
            )
    command.print_table(("verdict", "benchmark", "arms", "why"), rows)


def print_hosts(hosts: Sequence[FleetHost]) -> None:
    """Print the verdict on each host, those that fail first."""
    rows = []
    for host in sorted(hosts, key=_severity):
        word, why = host.verdict, ""
        if not word:
            word = verdict.Verdict.INCONCLUSIVE.value
            why = "nothing to judge it by: no peers to compare with, no budget"
        if host.reasons:
            why = host.reasons[0]
        rows.append((word, host.host, f"{host.measured} of {host.peers}", why))
    command.print_table(("verdict", "host", "peers", "why"), rows, most=_HOSTS)


def _severity(host: FleetHost) -> int:
    """Return the place of a host's verdict, with FAIL first and PASS last."""
    word = host.verdict or verdict.Verdict.INCONCLUSIVE.value
    return _WORST_FIRST.index(word)


def print_diagnosis(results: model.Results, judged: Sequence[verdict.Judgement]) -> None:
    """Print the verdict in one sentence and what to do; nothing where there is none."""
    whole = diagnosis.diagnose(results, judged)
    if whole is None:
        return
    command.say("", messages.of(whole.headline))
    for action in whole.actions:
        command.say(f"- {messages.of(action)}")


def print_ablation(knobs: Sequence[ablation.Knob]) -> None:
    """Print a row per knob and benchmark of an ablation, and what may be removed; nothing without knobs."""
    if not knobs:
        return
    print()
    command.print_table(knob_rows.HEAD, knob_rows.rows(knobs))
    command.say(*knob_rows.summary(knobs))
