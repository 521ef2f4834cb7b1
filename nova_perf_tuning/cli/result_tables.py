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


def print_summary(summaries: Sequence[summary.BenchmarkSummary]) -> None:
    """Print a row per benchmark and arm, and what a ratio is that does not look like that of the medians."""
    rows: list[list[str]] = []
    for benchmark in summaries:
        for arm in benchmark.arms:
            ratios = {pair.baseline: pair.ratio for pair in benchmark.comparisons if pair.arm == arm.arm}
            first = next((baseline for baseline in ratios if baseline != model.HOST), None)
            rows.append(
                [
                    benchmark.label,
                    arm.arm,
                    f"{text.number(arm.median.value)} {benchmark.unit}" if arm.median else "-",
                    str(arm.n)
                    + (f" ({arm.failed} failed)" if arm.failed else "")
                    + (f" ({len(arm.left_out)} left out)" if arm.left_out else ""),
                    f"{first}: {text.ratio(ratios[first])}" if first else "-",
                    text.ratio(ratios.get(model.HOST)),
                    f"{text.number(arm.service_per_unit.value * 1e3)} ms/{benchmark.work_unit}"
                    if arm.service_per_unit
                    else "-",
                ]
            )
    head = ("benchmark", "arm", "median", "trials", "ratio to", "ratio to host", "service CPU")
    command.print_table(head, rows)
    if any(pair.ratio is not None for benchmark in summaries for pair in benchmark.comparisons):
        print(_RATIO)


def print_headline(results: model.Results, summaries: Sequence[summary.BenchmarkSummary]) -> None:
    """Print what the figures say in one sentence, and what to beware of."""
    print()
    command.say(text.of(summary.headline(summaries)))
    notes = map(text.of, summary.notes(results, summaries))
    command.say(*notes, *text.cautions(summaries), prefix="note: ")


def print_paths(results: str, report: str) -> None:
    """Print where a validation's files are."""
    print()
    command.say(f"results: {results}")
    command.say(f"report: {report}")


def print_findings(results: model.Results) -> None:
    """Print where guests are not what was asked for, a line each."""
    command.say(*diagnosis.guest_findings(results), prefix="warning: guests of ")


def print_verdicts(judgements: Sequence[verdict.Judgement]) -> None:
    """Print a row per figure that was judged, with the verdict on it alone."""
    rows = [
        [
            word.value,
            judgement.budget.benchmark,
            f"{judgement.budget.arm} against {judgement.budget.baseline}",
            text.of(why),
        ]
        for judgement in judgements
        for word, why in judgement.verdicts_and_reasons
    ]
    command.print_table(("verdict", "benchmark", "arms", "why"), rows)


def print_hosts(hosts: Sequence[FleetHost]) -> None:
    """Print a row per host of a fleet."""
    rows = [
        [host.verdict or "-", host.host, f"{host.measured} of {host.peers}", (*host.reasons, "")[0]]
        for host in hosts
    ]
    command.print_table(("verdict", "host", "peers", "why"), rows)


def print_diagnosis(results: model.Results, judged: Sequence[verdict.Judgement]) -> None:
    """Print the verdict in one sentence and what to do; nothing where there is none."""
    whole = diagnosis.diagnose(results, judged)
    if whole is None:
        return
    print()
    command.say(text.of(whole.headline))
    command.say(*map(text.of, whole.actions), prefix="- ")


def print_ablation(knobs: Sequence[ablation.Knob]) -> None:
    """Print a row per knob and benchmark of an ablation, and what may be removed; nothing without knobs."""
    if not knobs:
        return
    print()
    command.print_table(text.KNOB_HEAD, text.knob_rows(knobs))
    command.say(*text.knob_summary(knobs))
