"""Measured figures in words: the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nova_perf_tuning.budget import model, noise, statistics, summary

if TYPE_CHECKING:
    from nova_perf_tuning.budget import history, trend

_IN_MEMORY: Final = ("tmpfs", "ramfs")
#: Why there is no verdict although budgets were given.
NO_BUDGET: Final = "no budget applies to what was measured on this host group and flavor"
_TCG = (
    "Guests ran under TCG (emulation): figures under TCG compare arms with each other, not hardware. Distance to "
    "the host is the emulator's, not KVM's."
)
#: What an A/A run compares.
_SAME: Final = (noise.ARMS[1], noise.ARMS[0])
#: What a comparison found, in the order of the headline.
_KINDS: Final = (
    _GAIN := "a gain in {}",
    _LOSS := "a loss in {}",
    _CHANCE := "noise alone makes a difference in {}",
    _SAME_FOUND := "no difference shown in {}",
    _TOO_FEW := "too few trials to tell in {}",
    _NO_PAIR := "no pair of trials in {}",
    _NOT_COUNTED := "too many trials that do not count in {}",
)

#: Terms of the report -> what they mean.
GLOSSARY: Final = (
    ("boot, block", "Guests are made anew for each boot; a block is one trial of every arm, side by side."),
    (
        "interval",
        "Where the true figure lies with the confidence named, over all boots that this host could make; not where"
        " single trials lie.",
    ),
    ("service CPU", "Host CPU of the guest's process and its vhost workers that is no vCPU time; never negative."),
    (
        "full overhead",
        "All CPU of that process and its workers less what the guest says it was busy itself; worthless where"
        " vCPUs waited for a host CPU, since the guest books the wait as work.",
    ),
    (
        "softirq of the host",
        "CPU that the host spent in interrupts and softirqs during the trial, less what it spends when idle; it"
        " belongs to no process.",
    ),
    (
        "verdict",
        "PASS: the whole interval is within the budget. FAIL: wholly beyond. INCONCLUSIVE: the limit lies inside."
        " INVALID: the figures cannot answer.",
    ),
)


def ratio(found: statistics.Estimate | None) -> str:
    """Return a ratio with its interval, ``1.07 (1.02 to 1.11)``; without one of how many pairs it is."""
    if found is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{found.value:.3f} (n={found.n})"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def number(value: float | None) -> str:
    """Return ``value`` with three significant digits and thousands separated, ``-`` for None."""
    if value is None:
        return "-"
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.2e}"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    for digits, bound in ((1, 9.995), (2, 0.9995)):
        if abs(value) >= bound:
            return f"{value:.{digits}f}"
    return f"{value:.3g}"


def interval(found: statistics.Estimate | None, factor: float = 1.0, digits: int | None = None) -> str:
    """Return ``low to high`` of an estimate, or that n is too small for one."""
    if found is None:
        return "-"
    if found.low is None or found.high is None:
        return f"n too small ({found.n})"
    low, high = found.low * factor, found.high * factor
    return f"{number(low)} to {number(high)}" if digits is None else f"{low:.{digits}f} to {high:.{digits}f}"


def gain(found: statistics.Estimate) -> str:
    """Return a ratio as percent of gain with its interval: ``+20.0% (95% interval +10.0% to +30.0%)``."""
    if found.low is None or found.high is None:
        return f"{percent(found.value)} (one boot, so no interval)"
    return (
        f"{percent(found.value)} ({found.confidence:.0%} interval {percent(found.low)} to {percent(found.high)})"
    )


def headline(summaries: Sequence[summary.BenchmarkSummary]) -> str:
    """Return one sentence on what the first comparison of guests found, benchmark by benchmark."""
    kinds: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    names = None
    for one in summaries:
        pair = next((pair for pair in one.comparisons if pair.baseline != summary.HOST), None)
        names = (pair.arm, pair.baseline) if pair else names
        found = pair.ratio if pair else None
        if found is None:
            kinds[_NOT_COUNTED if pair and pair.invalid else _NO_PAIR].append(one.label)
        elif found.low is None or found.high is None:
            kinds[_TOO_FEW].append(one.label)
        elif found.low <= 1 <= found.high:
            kinds[_SAME_FOUND].append(one.label)
        else:
            kind = _CHANCE if names == _SAME else _GAIN if found.low > 1 else _LOSS
            kinds[kind].append(f"{one.label} ({percent(found.value)})")
    said = "; ".join(kind.format(_listed(labels)) for kind, labels in kinds.items() if labels)
    if not said:
        return "Nothing was measured."
    text = f"{names[0]} against {names[1]}: {said}." if names else f"{said}."
    return f"A/A run, {text}" if names == _SAME else text[0].upper() + text[1:]


def percent(ratio: float) -> str:
    """Return ``+6.8%`` for 1.068; what rounds to nothing has no minus sign."""
    return f"{round(ratio - 1, 3) + 0.0:+.1%}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def change(series: history.Series, found: trend.Change) -> str:
    """Return a change of a history in words, with the versions that changed at the same time."""
    better = (found.ratio > 1) == (series.better == "higher")
    at = series.points[found.index].at
    text = f"{found.ratio - 1:+.1%} ({'better' if better else 'worse'}) from {at:%Y-%m-%d %H:%M} on"
    new = [f"{name} {before} -> {after}" for name, (before, after) in series.new_versions(found).items()]
    return f"{text}; {', '.join(new)}" if new else text


def is_aa(environment: Mapping[str, Any]) -> bool:
    """Whether the arms of guests are all the same, so that every difference between them is noise."""
    return environment.get("launcher") == "host" or set(environment.get("arms", {})) == set(noise.ARMS)


def headline_notes(results: model.Results, summaries: Sequence[summary.BenchmarkSummary] = ()) -> list[str]:
    """Return what must be read before the figures: emulation, an early end, errors, what has no figure."""
    environment = results.environment
    found = []
    if environment.get("accelerator") == "tcg":
        found.append(_TCG)
    if environment.get("launcher") == "host":
        found.append("All arms are this host itself (an A/A run): differences between them are noise.")
    elif is_aa(environment):
        found.append("Both pairs of guests are untuned (an A/A run): differences between them are noise.")
    ended = str(environment.get("ended", "complete"))
    if ended != "complete":
        found.append(f"The run ended early ({ended}); the figures are of the trials up to then.")
    failed = len({one.order for one in results.trials if one.value is None})
    if failed:
        found.append(f"{failed} of {len({one.order for one in results.trials})} trials failed; see the errors.")
    elsewhere = len(environment.get("errors", []))
    if elsewhere:
        found.append(f"Other incidents listed with the errors: {elsewhere}.")
    if wide := {one.order for one in results.trials if one.window == "execution"}:
        found.append(
            f"In {len(wide)} trials the guest's clock was not known to 0.1 s: their CPU includes start and end of"
            " the program."
        )
    return found + [
        f"{one.label}: no ratio {pair.arm}/{pair.baseline}: {pair.invalid}."
        for one in summaries
        for pair in one.comparisons
        if pair.invalid
    ]


def environment_warnings(environment: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the host that the figures come from: other work on it, a part that is missing."""
    found = []
    load, cpus = environment.get("load_at_start"), environment.get("cpus")
    if isinstance(load, int | float) and isinstance(cpus, int) and 0 < cpus < load:
        found.append(
            f"The host had other work when the trials began: load average {load:.1f} on {cpus} CPUs. Ratios are"
            " noisier for it and absolute figures too low; run it again on a quiet host."
        )
    if environment.get("vhost_net") is False:
        found.append(
            "The host had no /dev/vhost-net: QEMU itself moved the guests' packets, in its emulator thread. With"
            " the module vhost_net network figures differ; perf:vhost_placement had nothing to place."
        )
    writing = [
        label
        for label, one in environment.get("benchmarks", {}).items()
        if benchmark_writes(one.get("parameters", {}))
    ]
    if writing and (text := memory_warning(str(environment.get("scratch_filesystem", "")))):
        found.append(f"{_listed(writing)}: {text}")
    return found


def benchmark_writes(parameters: Mapping[str, str]) -> bool:
    """Whether a benchmark with these parameters writes files, so that it matters what holds them."""
    return "directory" in parameters


def memory_warning(filesystem: str) -> str | None:
    """Return what must be said of a disk benchmark on a file system of this type; None: nothing."""
    if filesystem not in _IN_MEMORY:
        return None
    return f"the files lay in memory ({filesystem}), so this is the speed of memory, not of a disk"


def cautions(summaries: Sequence[summary.BenchmarkSummary]) -> list[str]:
    """Return what is not valid or must be read with care, and why; what holds for several is said once."""
    found: dict[str, list[str]] = {}
    for one in summaries:
        for pair in one.comparisons:
            one_boot = "" if pair.ratio is None or pair.ratio.low is not None else "one boot only, so no interval"
            for note in filter(None, (one_boot, pair.left_out)):
                found.setdefault(note, []).append(f"{one.label} {pair.arm}/{pair.baseline}")
        for arm in one.arms:
            for note in _arm_notes(arm):
                found.setdefault(note, []).append(f"{one.label} on {arm.arm}")
    return [f"{', '.join(where)}: {note}" for note, where in found.items()]


def _arm_notes(arm: summary.ArmSummary) -> Iterator[str]:
    """Yield which trials do not count, and what CPU is not shown."""
    if arm.left_out:
        why = "; ".join(dict.fromkeys(text for _, text in arm.left_out))
        yield f"{len(arm.left_out)} of {arm.n + len(arm.left_out)} trials left out: {why}"
    if arm.cpu_invalid:
        yield f"no CPU is shown: {arm.cpu_invalid}"
        return
    if arm.uncounted:
        yield f"{arm.uncounted} of {arm.n} trials have no CPU counters"
    if arm.full_invalid:
        yield f"no full overhead is shown, but service CPU: {arm.full_invalid}"
