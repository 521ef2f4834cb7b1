# SPDX-License-Identifier: Apache-2.0
"""Figures of results as people read them, and what must be read with them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.validation.judge import statistics
from nova_perf_tuning.validation.report import summary
from nova_perf_tuning.validation.results import messages, model, reasons
from nova_perf_tuning.validation.results.environment import Environment, RecordedBenchmark

#: Why there is no verdict although budgets were given.
NO_BUDGET: Final = "no budget applies to what was measured on this host group and flavor"
#: Of a workload: the environment has both.
_NOT_SHOWN: Final = ("command", "kernel")
_C = reasons.ReasonCode


# -- figures of all arms


class Meaning(NamedTuple):
    """What a figure and a ratio of the tables are, in a sentence each."""

    figure: str
    ratio: str


def meaning(*, unpaired: bool) -> Meaning:
    """Return what the tables show; :param unpaired: nothing pairs the trials of arms."""
    figure = (
        "Figure: the median of the runs of each boot, then the geometric mean of the boots (the"
        " arithmetic one where a run gave 0)."
    )
    if unpaired:
        return Meaning(
            figure,
            "Ratio: the figure of the arm by that of the other, turned so that more than 1 is better.",
        )
    return Meaning(
        figure,
        "Ratio: the median of the ratios within the blocks of each boot, where a drift of the host"
        " cancels out, then the geometric mean of the boots, turned so that more than 1 is better;"
        " it is not the quotient of the figures beside it and may even point the other way.",
    )


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


def cpu_rows(benchmark: summary.BenchmarkSummary) -> list[tuple[str, list[str]]]:
    """Return what arms cost in CPU of the host: title, and a cell for each arm.

    A row of which nothing is known in any arm is left out.
    """
    rows: dict[str, list[str]] = {}
    for arm in benchmark.arms:
        for title, cell in _cpu_cells(arm, benchmark.work_unit):
            rows.setdefault(title, []).append(cell)
    return [(title, cells) for title, cells in rows.items() if set(cells) != {"-"}]


def _cpu_cells(arm: summary.ArmSummary, unit: str) -> Iterator[tuple[str, str]]:
    """Yield title and figure of each row of an arm; :param unit: of work; empty: nothing is counted."""
    full_unit = full_second = "not valid"
    if arm.full_invalid is None:
        full_unit = _figure(arm.full_per_unit, 1000)
        full_second = _figure(arm.full_per_second)
    if unit:
        yield f"all, ms per {unit}", _figure(arm.total_per_unit, 1000)
        yield f"service CPU, ms per {unit}", _figure(arm.service_per_unit, 1000)
        yield "– 95 % interval", interval(arm.service_per_unit, 1000)
        yield f"full overhead, ms per {unit}", full_unit
    yield "service CPU, in CPUs", _figure(arm.service_per_second)
    yield "full overhead, in CPUs", full_second
    beyond_idle = "interrupts and softirqs of the host beyond idle, of no process, in CPUs"
    yield beyond_idle, number(arm.cpus.get("softirq"))
    yield "guest busy by its own count, in CPUs", number(arm.guest_busy)
    wait = "-"
    if arm.wait_share is not None:
        wait = f"{100 * arm.wait_share:.1f} %"
    yield "vCPU wait, share of the time wanted", wait


def _figure(estimate: statistics.Estimate | None, factor: float = 1.0) -> str:
    if estimate is None:
        return "-"
    return number(estimate.value * factor)


def host_states(environment: Environment) -> list[tuple[str, str]]:
    """Return each arm with what the host did in it; none: arms do not differ in that."""
    rows: list[tuple[str, str]] = []
    for name, arm in environment.arms.items():
        if arm.host_state:
            rows.append((name, arm.host_state))
    return rows


def arm_differences(environment: Environment) -> list[tuple[str, str]]:
    """Return each guest arm with what it asked for that another did not; none: they are alike.

    Nothing is known of what asked for nothing anywhere, as of output files.
    """
    requests: dict[str, set[str]] = {}
    for name, arm in environment.arms.items():
        if name != model.HOST:
            requests[name] = {f"{key}={value}" for key, value in arm.request.items()}
    if not any(requests.values()) or model.is_aa(environment):
        return []
    common = set.intersection(*requests.values())
    if len(requests) == 1:
        common = set()
    rows: list[tuple[str, str]] = []
    for name, request in requests.items():
        own = ", ".join(sorted(request - common))
        rows.append((name, own or "none: the guest as Nova or libvirt makes it"))
    return rows
