# SPDX-License-Identifier: Apache-2.0
"""Figures of results as people read them, and what must be read with them."""

from collections.abc import Iterator, Sequence
from typing import Final

from nova_perf_tuning.validation.judge import ablation, statistics
from nova_perf_tuning.validation.report import summary
from nova_perf_tuning.validation.results import messages, reasons
from nova_perf_tuning.validation.results.environment import RecordedBenchmark

#: Why there is no verdict although budgets were given.
NO_BUDGET: Final = "no budget applies to what was measured on this host group and flavor"
#: Of a workload: the environment has both.
_NOT_SHOWN: Final = ("command", "kernel")
_C = reasons.ReasonCode


# -- figures of all arms


def ratio(estimate: statistics.Estimate | None) -> str:
    """Return a ratio with its interval, ``1.07 (1.02 to 1.11)``, or with its number of pairs."""
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f} (n={estimate.n})"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def number(value: float | None) -> str:
    """Return ``value`` with three significant digits and thousands separated, ``-`` for None."""
    if value is None:
        return "-"
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.2e}"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:#.3g}" if abs(value) >= 0.9995 else f"{value:.3g}"


def interval(
    estimate: statistics.Estimate | None,
    factor: float = 1.0,
    digits: int | None = None,
) -> str:
    """Return ``low to high`` of an estimate, or that n is too small for one."""
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"n too small ({estimate.n})"
    low, high = estimate.low * factor, estimate.high * factor
    if digits is None:
        return f"{number(low)} to {number(high)}"
    return f"{low:.{digits}f} to {high:.{digits}f}"


def gain(estimate: statistics.Estimate) -> str:
    """Return a ratio as a gain: ``+20.0% (95% interval +10.0% to +30.0%)``."""
    if estimate.low is None or estimate.high is None:
        return f"{messages.percent(estimate.value)} (one boot, so no interval)"
    ends = f"{messages.percent(estimate.low)} to {messages.percent(estimate.high)}"
    return f"{messages.percent(estimate.value)} ({estimate.confidence:.0%} interval {ends})"


def workloads(benchmark: RecordedBenchmark) -> list[str]:
    """Return what outputs say of the work, with the arms that did it."""
    arms: dict[str, list[str]] = {}
    for arm, done in benchmark.workloads.items():
        for workload in done:
            words = []
            for name, value in workload.items():
                if name not in _NOT_SHOWN:
                    words.append(f"{name}: {value}")
            names = arms.setdefault("; ".join(words), [])
            if arm not in names:
                names.append(arm)
    return [f"{', '.join(names)}: {line}" for line, names in arms.items()]


def cautions(summaries: Sequence[summary.BenchmarkSummary]) -> list[str]:
    """Return what is not valid or must be read with care, and why.

    What holds for several is said once.
    """
    sources: dict[str, list[str]] = {}
    for benchmark in summaries:
        for pair in benchmark.comparisons:
            where = f"{benchmark.label} {pair.arm}/{pair.baseline}"
            if pair.ratio is not None and pair.ratio.low is None:
                one_boot = messages.of(reasons.reason(_C.ONE_BOOT))
                sources.setdefault(one_boot, []).append(where)
            if pair.notes:
                sources.setdefault(messages.lines(pair.notes), []).append(where)
        for arm in benchmark.arms:
            for note in _arm_notes(arm):
                sources.setdefault(note, []).append(f"{benchmark.label} on {arm.arm}")
    return [f"{', '.join(where)}: {note}" for note, where in sources.items()]


def _arm_notes(arm: summary.ArmSummary) -> Iterator[str]:
    """Yield which trials do not count, and what CPU is not shown."""
    if arm.excluded:
        count = len(arm.excluded)
        why = messages.lines(reason for _, reason in arm.excluded)
        yield f"{count} of {arm.n + count} trials excluded: {why}"
    if arm.cpu_invalid:
        yield f"no CPU is shown: {messages.of(arm.cpu_invalid)}"
        return
    if arm.uncounted:
        yield f"{arm.uncounted} of {arm.n} trials have no CPU counters"
    if arm.full_invalid:
        yield f"no full overhead is shown, but service CPU: {messages.of(arm.full_invalid)}"


# -- ablation

#: Columns of :func:`knob_rows`.
KNOB_HEAD: Final = ("knob", "extra spec", "benchmark", "here", "tuned / without it", "budgets")


def knob_rows(knobs: Sequence[ablation.Knob]) -> list[list[str]]:
    rows = []
    for knob in knobs:
        spec = f"{knob.spec}={knob.value}"
        met = "" if knob.met_without is None else f"without it: {knob.met_without.value}"
        for label, finding in knob.findings.items():
            effect = ratio(finding.effect)
            if finding.notes:
                effect = f"{effect}; {messages.lines(finding.notes)}"
            rows.append([knob.call.value, spec, label, finding.call.value, effect, met])
    return rows


def knob_summary(knobs: Sequence[ablation.Knob]) -> list[str]:
    """Return in sentences which extra specs can be left out and which are not decided.

    There are no sentences without knobs.
    """
    if not knobs:
        return []
    names = ", ".join(ablation.removable(knobs)) or "none"
    margin = f"{ablation.MARGIN:.0%}"
    shown = f"effect shown to be below {margin} either way"
    sentences = [f"removable, each by itself ({shown}): {names}"]
    undecided = [knob.spec for knob in knobs if knob.call is ablation.Call.UNDECIDED]
    if undecided:
        listed = ", ".join(undecided)
        sentences.append(f"undecided (keep them, or measure more boots): {listed}")
    return sentences
