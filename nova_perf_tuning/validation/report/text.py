# SPDX-License-Identifier: Apache-2.0
"""All English of results, made last: of reasons, by the text of each code, and of figures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import rules
from nova_perf_tuning.guest import probe
from nova_perf_tuning.validation.judge import ablation, statistics
from nova_perf_tuning.validation.measure import model, reasons
from nova_perf_tuning.validation.report import summary

#: Names that a message lists.
_NAMES = 20

#: Why there is no verdict although budgets were given.
NO_BUDGET: Final = "no budget applies to what was measured on this host group and flavor"
_OUTCOMES: Final = {
    reasons.Outcome.GAIN: "a gain",
    reasons.Outcome.LOSS: "a loss",
    reasons.Outcome.NOISE: "noise alone makes a difference",
    reasons.Outcome.NO_DIFFERENCE: "no difference shown",
    reasons.Outcome.TOO_FEW: "too few trials to tell",
    reasons.Outcome.NO_PAIR: "no pair of trials",
    reasons.Outcome.INVALID: "too many trials that do not count",
}

_C = reasons.ReasonCode
_Params = Mapping[str, Any]


def of(reason: reasons.Reason) -> str:
    """Return a reason with its notes as one line."""
    params = {name: _LISTS[name](value) if name in _LISTS else value for name, value in reason.params.items()}
    make = _MADE.get(reason.code, reason.code.value.format_map)
    return "; ".join([make(params), *map(of, reason.notes)])


def lines(some: Iterable[reasons.Reason]) -> str:
    """Return several reasons as one line, equal ones once."""
    return "; ".join(dict.fromkeys(map(of, some)))


# -- figures


def _signed(loss: float) -> str:
    """Return a loss as the change of performance that it is: ``-2.3%``, a loss below nothing ``+50.9%``."""
    return f"{-loss if round(loss, 3) else 0.0:+.1%}"


def _confidence(share: float) -> str:
    """Return a confidence as ``95%``, ``99.95%``."""
    return f"{share * 100:.4g}%"


def _figure(params: _Params) -> str:
    if params["figure"] == "loss":
        return _signed(params["value"])
    return f"service CPU per {params['unit'] or 'unit'} {params['value']:.4g} s"


def _limit(params: _Params) -> str:
    if params["figure"] == "cpu":
        return f"allowed {params['limit']:.4g} s"
    return f"{'demanded' if params['limit'] < 0 else 'allowed'} {_signed(params['limit'])}"


def _placed(params: _Params) -> str:
    low, high = params["low"], params["high"]
    span = f"{_signed(high)} to {_signed(low)}" if params["figure"] == "loss" else f"{low:.4g} s to {high:.4g} s"
    return f"{_figure(params)} ({_confidence(params['confidence'])} interval {span}), {_limit(params)}"


def _too_few(params: _Params) -> str:
    return (
        f"{_figure(params)}, {_limit(params)}: no interval from {params['boots']} "
        f"boot{'s'[: params['boots'] != 1]}; at least {params['needed']} are needed"
    )


def _lost(params: _Params) -> str:
    kinds = {"failed": "failed", "zeros": "gave 0, which has no ratio"}
    kinds |= {"missing": "are missing", "excluded": "were excluded"}
    what = [words for kind, words in kinds.items() if params.get(kind)]
    return f"{params['count']} of {params['of']} trials of '{params['arm']}' {' or '.join(what)}"


def _too_many_lost(params: _Params) -> str:
    why = f": {params['why']}" if params["why"] else ""
    return f"{_lost(params)} (limit {params['limit']:.0%}){why}"


def _metric(params: _Params) -> str:
    hint = "" if params["named"] else "; name one of them as the budget's metric if that is what it is for"
    metric = f"metric '{params['metric']}'" if params["metric"] else "what it is judged by"
    return f"{metric} was not measured; {params['benchmark']} has {params['known']}{hint}"


def _guests(params: _Params) -> str:
    more = f" (and {params['more']} more)" if params["more"] else ""
    return f"guests of '{params['arm']}' are not what was asked for: {params['finding']}{more}"


def _listed(names: Iterable[str]) -> str:
    return rules.named(sorted(names), _NAMES) or "none"


def _unplaced(params: _Params) -> str:
    names = " and no ".join(name.replace("_", " ") for name in params["unknown"])
    options = " and ".join(f"--{name.replace('_', '-')}" for name in params["unknown"])
    return f"budgets left out, since the results name no {names} (give {options}): {params['budgets']}"


def _slower(params: _Params) -> str:
    low, high = f"{params['low']:.0%}", f"{params['high']:.0%}"
    span = low if low == high else f"{low} to {high}"
    return f"{params['benchmark']} ({params['arm']}): slower than the other hosts by {span}"


def _host_beyond(params: _Params) -> str:
    if params["figure"] == "loss":
        figure = f"{_signed(params['high'])} to {_signed(params['low'])} against '{params['baseline']}'"
    else:
        figure = f"service CPU per {params['unit'] or 'unit'} {params['low']:.4g} s to {params['high']:.4g} s"
    return f"{params['benchmark']} ({params['arm']}): {figure} in all its pairs, {_limit(params)}"


def _perhaps(params: _Params) -> str:
    noise = f"the noise of the hosts ({params['spread']:.1%})"
    return f", which its peers or {noise} may explain; measure it with more hosts (--peers)"


def _compared(params: _Params) -> str:
    said = []
    for outcome, words in _OUTCOMES.items():
        labels = [
            row["benchmark"] if row["ratio"] is None else f"{row['benchmark']} ({percent(row['ratio'])})"
            for row in params["outcomes"]
            if row["outcome"] == outcome
        ]
        said += [f"{words} in {', '.join(labels)}"] * bool(labels)
    arms = f"{params['arm']} against {params['baseline']}: " if params["arm"] else ""
    line = f"{arms}{'; '.join(said)}."
    if (params["baseline"], params["arm"]) == model.AA_ARMS:
        return f"A/A run, {line}"
    return line[0].upper() + line[1:]


def _judged(params: _Params) -> str:
    met = "the budget is met; " if params["verdict"] == "PASS" else ""
    more = f" (and {params['more']} more of {params['of']} budgets)" if params["more"] else ""
    culprit = f" It points at the {params['culprit']}." if params["culprit"] else ""
    figure = f"{params['arm']} against {params['baseline']} in {params['benchmark']}: {params['why']}"
    return f"{params['verdict']}: {met}{figure}{more}.{culprit}"


def _hosts_judged(params: _Params) -> str:
    count = f"{params['verdict']}: {len(params['hosts'])} of {params['of']} hosts"
    if params["verdict"] == "PASS":
        return f"{count} are as good as asked for."
    example = f" ({params['example']})" if params["example"] else ""
    return f"{count}: {_listed(params['hosts'])}{example}."


def _change(params: _Params) -> str:
    versions = ", ".join(f"{name} {before} -> {after}" for name, (before, after) in params["versions"].items())
    return f"from {params['at'][:16].replace('T', ' ')} on{'; ' if versions else ''}{versions}"


#: How parameters that are lists are shown.
_LISTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "why": lines,
    "known": _listed,
    "arms": ", ".join,
    "collectors": ", ".join,
    "benchmarks": ", ".join,
    "budgets": "; ".join,
    "mhz": lambda mhz: ", ".join(f"{arm} {speed:.0f} MHz" for arm, speed in mhz.items()),
}

#: Texts that take more than the parameters in their places.
_MADE: Final[Mapping[reasons.ReasonCode, Callable[[_Params], str]]] = {
    _C.WITHIN: _placed,
    _C.BEYOND: _placed,
    _C.UNDECIDED: lambda params: f"{_placed(params)}: more boots may decide",
    _C.TOO_FEW_BOOTS: _too_few,
    _C.NO_PAIRS: lambda params: f"{'loss' if params['figure'] == 'loss' else 'service CPU'}: no pair of trials",
    _C.INTERIM: lambda params: (
        f"{_confidence(params['confidence'])} at this look, so that {_confidence(params['promised'])} holds over"
        " both looks"
    ),
    _C.FAILED: _lost,
    _C.NO_METRIC: _metric,
    _C.ACCELERATOR_CONTRADICTED: lambda params: (
        f"guests of '{params['arm']}': {probe.contradiction(params['found'], params['accelerator'])}"
    ),
    _C.OTHER_GUESTS: _guests,
    _C.TOO_MANY_LOST: _too_many_lost,
    _C.PLACE_UNKNOWN: _unplaced,
    _C.HOST_LOST_TRIALS: lambda params: f"{params['benchmark']}: {_too_many_lost(params)}",
    _C.SLOW: lambda params: f"{_slower(params)} in all its pairs",
    _C.MAYBE_SLOW: lambda params: f"{_slower(params)}{_perhaps(params)}",
    _C.HOST_BEYOND: _host_beyond,
    _C.HOST_MAYBE_BEYOND: lambda params: f"{_host_beyond(params)}{_perhaps(params)}",
    _C.COMPARED: _compared,
    _C.JUDGED: _judged,
    _C.HOSTS_JUDGED: _hosts_judged,
    _C.IMPROVED: lambda params: f"{percent(params['ratio'])} (better) {_change(params)}",
    _C.WORSENED: lambda params: f"{percent(params['ratio'])} (worse) {_change(params)}",
}


# -- figures of all arms


def ratio(estimate: statistics.Estimate | None) -> str:
    """Return a ratio with its interval, ``1.07 (1.02 to 1.11)``; without one of how many pairs it is."""
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


def interval(estimate: statistics.Estimate | None, factor: float = 1.0, digits: int | None = None) -> str:
    """Return ``low to high`` of an estimate, or that n is too small for one."""
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"n too small ({estimate.n})"
    low, high = estimate.low * factor, estimate.high * factor
    return f"{number(low)} to {number(high)}" if digits is None else f"{low:.{digits}f} to {high:.{digits}f}"


def gain(estimate: statistics.Estimate) -> str:
    """Return a ratio as percent of gain with its interval: ``+20.0% (95% interval +10.0% to +30.0%)``."""
    if estimate.low is None or estimate.high is None:
        return f"{percent(estimate.value)} (one boot, so no interval)"
    ends = f"{percent(estimate.low)} to {percent(estimate.high)}"
    return f"{percent(estimate.value)} ({estimate.confidence:.0%} interval {ends})"


def percent(ratio: float) -> str:
    """Return ``+6.8%`` for 1.068; what rounds to nothing has no minus sign."""
    return f"{round(ratio - 1, 3) + 0.0:+.1%}"


def cautions(summaries: Sequence[summary.BenchmarkSummary]) -> list[str]:
    """Return what is not valid or must be read with care, and why; what holds for several is said once."""
    sources: dict[str, list[str]] = {}
    for benchmark in summaries:
        for pair in benchmark.comparisons:
            one_boot = "" if pair.ratio is None or pair.ratio.low is not None else of(reasons.reason(_C.ONE_BOOT))
            for note in filter(None, (one_boot, lines(pair.notes))):
                sources.setdefault(note, []).append(f"{benchmark.label} {pair.arm}/{pair.baseline}")
        for arm in benchmark.arms:
            for note in _arm_notes(arm):
                sources.setdefault(note, []).append(f"{benchmark.label} on {arm.arm}")
    return [f"{', '.join(where)}: {note}" for note, where in sources.items()]


def _arm_notes(arm: summary.ArmSummary) -> Iterator[str]:
    """Yield which trials do not count, and what CPU is not shown."""
    if arm.excluded:
        why = "; ".join(dict.fromkeys(of(reason) for _, reason in arm.excluded))
        yield f"{len(arm.excluded)} of {arm.n + len(arm.excluded)} trials excluded: {why}"
    if arm.cpu_invalid:
        yield f"no CPU is shown: {of(arm.cpu_invalid)}"
        return
    if arm.uncounted:
        yield f"{arm.uncounted} of {arm.n} trials have no CPU counters"
    if arm.full_invalid:
        yield f"no full overhead is shown, but service CPU: {of(arm.full_invalid)}"


# -- ablation

#: Columns of :func:`knob_rows`.
KNOB_HEAD: Final = ("knob", "extra spec", "benchmark", "here", "tuned / without it", "budgets")


def knob_rows(knobs: Sequence[ablation.Knob]) -> list[list[str]]:
    rows = []
    for knob in knobs:
        met = "" if knob.met_without is None else f"without it: {knob.met_without.value}"
        for label, finding in knob.findings.items():
            effect = "; ".join(filter(None, [ratio(finding.effect), lines(finding.notes)]))
            rows.append([knob.call.value, f"{knob.spec}={knob.value}", label, finding.call.value, effect, met])
    return rows


def knob_summary(knobs: Sequence[ablation.Knob]) -> list[str]:
    """Return in sentences which extra specs can be left out and which are not decided; nothing without knobs."""
    if not knobs:
        return []
    names = ", ".join(ablation.removable(knobs)) or "none"
    sentences = [f"removable, each by itself (effect shown to be below {ablation.MARGIN:.0%} either way): {names}"]
    if undecided := [knob.spec for knob in knobs if knob.call is ablation.Call.UNDECIDED]:
        sentences.append(f"undecided (keep them, or measure more boots): {', '.join(undecided)}")
    return sentences
